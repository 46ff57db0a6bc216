import os

from celery import Celery

from perdure import Client, install

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "proj.settings")

app = Celery("proj")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
if os.environ.get("WITH_PERDURE", "1") == "1":
    install(app)


def submit_refund():
    """Submit a run, as a script outside of Django does."""
    Client(app=app).submit("refund", "found")
