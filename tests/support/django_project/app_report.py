"""A report of the project's Celery app: its settings, tasks and queues, as JSON."""

import json
import re

from celery.app.defaults import SETTING_KEYS
from proj import celery_app as app

app.loader.import_default_modules()
app.finalize()
settings = {key: re.sub(" at 0x[0-9a-f]+", "", repr(app.conf[key])) for key in SETTING_KEYS}
print(
    json.dumps(
        {"settings": settings, "tasks": sorted(app.tasks), "queues": sorted(app.amqp.queues)}
    )
)
