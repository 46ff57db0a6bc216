from perdure import Command, ControllerExecutorFlow, Finish, RoundContext, register


@register("refund")
class Refund(ControllerExecutorFlow):
    """Found in the Django app, as Celery finds its tasks."""

    def decide(self, context: RoundContext) -> Command | Finish:
        return Finish(context.goal)
