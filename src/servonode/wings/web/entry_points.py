"""The entry points of the wing for browsers: references by kind and name."""

ENTRY_POINTS = {
    "commands": {"page": "servonode.wings.web.commands:page"},
    "sections": {"report": "servonode.wings.web.sections:Reported"},
    "views": {"page": "servonode.wings.web.views:PAGE", "html": "servonode.wings.web.views:HTML"},
}
