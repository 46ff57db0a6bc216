import os

SECRET_KEY = "for tests"
INSTALLED_APPS = ["orders"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
USE_TZ = True

CELERY_BROKER_URL = os.environ["PROJECT_BROKER"]
CELERY_RESULT_BACKEND = os.environ["PROJECT_BROKER"]
CELERY_TASK_DEFAULT_QUEUE = "orders"
CELERY_TASK_ROUTES = {"orders.tasks.*": {"queue": "orders"}}
CELERY_TASK_TIME_LIMIT = 30
CELERY_BEAT_SCHEDULE = {
    "remind": {"task": "orders.tasks.total", "schedule": 3600.0, "args": ([1],)}
}
CELERY_WORKER_SEND_TASK_EVENTS = True
