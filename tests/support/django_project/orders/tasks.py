from celery import shared_task
from django.conf import settings


@shared_task
def total(prices: list[int]) -> list[object]:
    return [sum(prices), settings.CELERY_TASK_DEFAULT_QUEUE]
