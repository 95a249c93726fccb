"""What a PostFilter plugin that preempts does in two halves, so that extenders have their say in between."""

from __future__ import annotations

from scheduler.framework.post_filter import PostFilterAnswer, PostFilterContext, PostFilterPlugin
from scheduler.objects.steps import Steps, run_to_end
from scheduler.preemption.evaluation import Candidates


class PreemptionPlugin(PostFilterPlugin):
    """A class and no protocol: a look at the methods of a protocol takes 7 µs, and each attempt that finds no node
    asks about each of its plugins."""

    def begin_in_steps(self, context: PostFilterContext) -> Steps[PostFilterAnswer | Candidates]:
        """The first half, with pauses where it would take long: the candidates that extenders may have a say in, or the
        answer where there are none."""
        raise NotImplementedError

    def conclude(self, context: PostFilterContext, candidates: Candidates) -> PostFilterAnswer:
        """The second half: the choice among the candidates that are left."""
        raise NotImplementedError

    def begin(self, context: PostFilterContext) -> PostFilterAnswer | Candidates:
        """The first half without pauses."""
        return run_to_end(self.begin_in_steps(context))

    def whole_in_steps(self, context: PostFilterContext) -> Steps[PostFilterAnswer]:
        """Both halves, with the pauses of the first."""
        begun = yield from self.begin_in_steps(context)
        return begun if isinstance(begun, PostFilterAnswer) else self.conclude(context, begun)

    def post_filter(self, context: PostFilterContext) -> PostFilterAnswer:
        return run_to_end(self.whole_in_steps(context))
