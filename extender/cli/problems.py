"""What cannot be done, as its user is told: what it is about, and what would mend it.

Takes errors of a call to the API server, gives sentences; must not hide whose words they are.
"""

from __future__ import annotations

from extender.kube import errors

#: exit codes: done; there is no answer; the command line or the kubeconfig cannot be used
DONE, FAILED, UNUSABLE = 0, 1, 2

NOT_INSTALLED = "Muster is not installed in this cluster: the API server serves no muster.dev/v1alpha1"
INSTALL = "install it with `kubectl apply -k manifests`, or choose another cluster with --context"
NO_LIVE = "the live answers are not installed: the API server serves no visibility.muster.dev"
INSTALL_LIVE = "manifests/answers/install.sh adds them"
LIVE_AWAY = "the live answers do not answer"
LIVE_MEND = "`kubectl get apiservice v1alpha1.visibility.muster.dev` says why"


class Problem(Exception):
    """`what` names the object, `mend` what to do; both are for people."""

    def __init__(self, what: str, mend: str = "", status: int = FAILED) -> None:
        super().__init__(what)
        self.what = what
        self.mend = mend
        self.status = status

    def __str__(self) -> str:
        return f"{self.what}; {self.mend}" if self.mend else self.what


def of(error: errors.KubeError, asked: str, host: str) -> Problem:
    """What a failed call means for who asked for this (`podgroups.muster.dev "train" in namespace "team"`)."""
    match error:
        case errors.Unconfigured():
            return Problem(str(error), "name a file with --kubeconfig or KUBECONFIG", UNUSABLE)
        case errors.Unreachable():
            what = f"the API server {host} does not answer ({error})"
            return Problem(what, "is it up, and is the context right? `kubectl cluster-info` asks the same one")
        case errors.Unauthorized():
            return Problem(f"the API server {host} does not accept your credentials", "log in again")
        case errors.Forbidden():
            what = error.message or f"you may not read {asked}"
            return Problem(what, "ask for the ClusterRole `view` in that namespace, or for all of them")
        case errors.NotFound():
            return Problem(f"there is no {asked}")
        case errors.TooManyRequests():
            return Problem(f"the API server {host} is too busy for {asked}", "try again")
    return Problem(f"{asked} cannot be read: {error}")
