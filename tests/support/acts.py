"""What a provider, a user and a script can do to a job in any order, played on a stage."""

from dataclasses import replace

from hypothesis import strategies as st

from support.stage import Stage

PROVIDER = ("lose", "warn", "reprieve", "shutdown")
OPERATOR = ("wait", "long wait", "lost write")
EXIT_CODES = {"crash": 1, "leave": 82, "early exit": 0}

Act = tuple[str, int]


def acts(*names: str) -> st.SearchStrategy[list[Act]]:
    """Return histories of these acts, each with a number that picks its pod or its length."""
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 9)), max_size=12)


def play(stage: Stage, act: str, number: int) -> None:  # noqa: C901, PLR0912 -- one case an act
    """Let one thing happen; what cannot happen now does not."""
    names = sorted(stage.pods)
    name = names[number % len(names)] if names else ""
    pod = stage.pods.get(name)
    generation = stage.job.generation + 1
    match act:
        case "lose" if pod is not None and pod.node in stage.nodes:
            stage.lose_node(pod.node)
        case "warn" if pod is not None and pod.node in stage.nodes:
            stage.warn_node(pod.node)
        case "reprieve" if pod is not None and pod.node in stage.nodes:
            stage.reprieve_node(pod.node)
        case "shutdown" if pod is not None and not pod.ended:
            stage.end_pod(name, 143, reason="Terminated", disruption="TerminationByKubelet")
        case "crash" | "leave" | "early exit" if pod is not None and not pod.ended:
            stage.end_pod(name, EXIT_CODES[act])
        case "finish" if stage.members():
            stage.finish()
        case "vanish" if pod is not None:
            stage.vanish_pod(name)
        case "suspend" | "resume":
            stage.job = replace(stage.job, suspend=act == "suspend", generation=generation)
        case "shrink" | "grow":
            most = 2 if act == "shrink" else 4
            stage.job = replace(stage.job, max_replicas=most, generation=generation)
        case "servers" if stage.job.uses_servers:
            stage.job = replace(stage.job, servers=1 + number % 3, generation=generation)
        case "wait":
            stage.wait(number)
        case "long wait":
            stage.wait(60 * number)
        case "lost write":
            before = stage.status
            stage.pass_once()
            stage.status = before
        case _:
            pass
