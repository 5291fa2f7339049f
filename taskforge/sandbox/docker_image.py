"""Environment images: a cleaned base, this host's environment folder above it, and nothing else.

No layer holds source of a repository, nor what vendors other projects. The same base and environment give the same
image on every host. Where a corpus pins one, no other passes for it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack

from taskforge.errors import SandboxFault
from taskforge.model import Image
from taskforge.sandbox import Environment
from taskforge.sandbox.docker_archive import inspect, load, said
from taskforge.sandbox.docker_base import Base, Bases, Clean
from taskforge.sandbox.docker_config import as_image, configuration, digest, pure, told
from taskforge.sandbox.docker_daemon import Daemon, faults
from taskforge.sandbox.docker_layers import Layer, environment_layer
from taskforge.sandbox.docker_use import Use
from taskforge.sandbox.platforms import here

__all__ = ["REPOSITORY", "Images"]

log = logging.getLogger("taskforge.sandbox")

REPOSITORY = "taskforge-env"


class Images:
    """The images of one daemon.

    Args:
        base: name of the base image, in which ``{minor}`` stands for Python's version; empty for the defaults.
    """

    def __init__(self, daemon: Daemon, *, base: str) -> None:
        self.daemon = daemon
        self.bases = Bases(daemon, name=base)
        self._known: dict[tuple[str, bool, str], str] = {}
        self._mutex = threading.Lock()
        self._use = Use(daemon.folder / "images")

    @staticmethod
    def name(environment_digest: str) -> str:
        """The name of an environment's image in a daemon."""
        return f"{REPOSITORY}:{environment_digest[:12]}"

    def ensure(self, environment: Environment, *, tools: bool) -> str:
        """The daemon's id of the image of an environment, proven to be the pinned one where it is pinned.

        One that is missing is pulled, where the pin says from where, else made of this host's environment. From now
        on this process uses it.

        Args:
            tools: with the environment's ``tools`` at ``/tools``, in an image of its own, which is never pinned.

        Raises:
            SandboxFault: ``image_differs`` when what can be made here is not what is pinned; ``docker_base`` when
                there is no base image of the environment's Python; or the daemon fails.
        """
        tools = tools and environment.tools is not None
        pin = None if tools else environment.image
        key = (environment.digest, tools, pin.digest if pin is not None else "")
        with self._mutex:
            known = self._known.get(key)
            if known is None:
                with faults(f"making the image of environment {environment.digest[:12]}"):
                    known = self._find_or_make(environment, pin, tools=tools)
                self._known[key] = known
        self._use.begin(known)
        return known

    def image(self, environment: Environment) -> Image:
        """The image of an environment as a corpus pins it; made and proven as by :meth:`ensure`."""
        made = self.ensure(environment, tools=False)
        if environment.image is not None:
            return environment.image
        found = self.facts(made)
        with faults("asking for the base image"):
            base = self.bases.find(_minor(environment))
            cleaned = None if base is None else self.bases.cleaned(base, _minor(environment))
        if cleaned is None or cleaned.layer != found.layers[0]:
            return found
        return found.model_copy(update={"base": str(base)})

    def facts(self, name: str) -> Image:
        """What a daemon says of one of our images, by its name or id.

        Raises:
            SandboxFault: ``docker_image`` when it is absent or none of ours.
        """
        with faults(f"asking for image {name}"):
            found = inspect(self.daemon, name)
        image = None if found is None else as_image(found)
        if image is None:
            raise SandboxFault(
                f"the daemon has no image {name}" if found is None else f"{name} is no image of this taskforge",
                kind="docker_image",
                hint="make it with `taskforge images build`, or get it with `taskforge images load` or `pull`",
                retryable=False,
            )
        return image

    def leased(self, image_id: str) -> bool:
        """Whether a process of this host uses the image, this one included."""
        return self._use.leased(image_id)

    def last_used(self, image_id: str) -> float | None:
        """When this host used the image last, seconds since the epoch; None when it never did."""
        return self._use.last(image_id)

    def forget(self, image: str) -> None:
        """The daemon no longer has it."""
        with self._mutex:
            self._known = {key: held for key, held in self._known.items() if held != image}
        self._use.end(image)

    # -- finding --------------------------------------------------------------------------------------------------

    def _find_or_make(self, environment: Environment, pin: Image | None, *, tools: bool) -> str:
        name = self.name(environment.digest) + ("-tools" if tools else "")
        with self.daemon.locked(f"image-{name.partition(':')[2]}"):
            if pin is not None:
                return self._pinned(name, pin) or self._made(environment, name, pin, tools=False)
            found = inspect(self.daemon, name)
            labels = _labels(environment, tools=tools)
            if found is not None and pure(found, kind="environment", layers=2, **labels):
                base = self.bases.find(_minor(environment))
                # Without its base, for example loaded from a file, it is as good.
                if base is None or self._clean(base, environment).layer == found["RootFS"]["Layers"][0]:
                    return str(found["Id"])
            return self._made(environment, name, None, tools=tools)

    def _pinned(self, name: str, pin: Image) -> str | None:
        for place in (name, pin.digest):
            found = inspect(self.daemon, place)
            if found is not None and digest(told(found)) == pin.digest:
                if place != name:
                    self._tag(pin.digest, name)
                return str(found["Id"])
            if found is not None:
                log.warning("%s is not the image %s that the corpus pins: it is not used", place, pin.digest[7:19])
        return self._pulled(name, pin) if pin.reference else None

    def _pulled(self, name: str, pin: Image) -> str | None:
        import docker.errors

        log.info("pulling %s", pin.reference)
        try:
            _messages, error = said(self.daemon.client.api.pull(pin.reference, stream=True, decode=True))
        except docker.errors.APIError as refusal:
            error = str(refusal.explanation or refusal)
        found = None if error else inspect(self.daemon, pin.reference)
        if found is None or digest(told(found)) != pin.digest:
            log.warning("%s cannot be had: %s", pin.reference, error or "it is another image than the corpus pins")
            return None
        self._tag(pin.reference, name)
        return str(found["Id"])

    def _tag(self, image: str, name: str) -> None:
        repository, _, tag = name.partition(":")
        self.daemon.client.api.tag(image, repository, tag, force=True)

    # -- making ---------------------------------------------------------------------------------------------------

    def _clean(self, base: Base, environment: Environment) -> Clean:
        return self.bases.clean(base, _minor(environment))

    def _made(self, environment: Environment, name: str, pin: Image | None, *, tools: bool) -> str:
        try:
            base = self.bases.get(_minor(environment))
            clean = self._clean(base, environment)
        except SandboxFault as fault:
            if pin is None or fault.kind != "docker_base":
                raise
            raise SandboxFault(
                f"image {pin.digest[7:19]}, which the corpus pins, is missing and cannot be made here: {fault}",
                kind=fault.kind,
                hint=f"get it with `taskforge images load` or `pull`; or {fault.hint}",
                retryable=False,
            ) from fault
        with ExitStack() as stack:
            above = stack.enter_context(environment_layer(environment, clean.interpreter, tools=tools))
            labels = {
                **_labels(environment, tools=tools), "python": clean.python, "size": str(clean.size + above.size),
            }  # fmt: skip
            config = configuration("environment", [clean.layer, above.digest], labels, platform=here())
            if pin is not None and digest(config) != pin.digest:
                raise _differs(pin, base, clean, above, digest(config))
            # The daemon has the lower layer: not sent again.
            lower = lambda: stack.enter_context(self.bases.layer(clean))  # noqa: E731
            return load(self.daemon, name, config, [clean.layer, above], lower)


def _differs(pin: Image, base: Base, clean: Clean, above: Layer, made: str) -> SandboxFault:
    if clean.layer != pin.layers[0]:
        why = f"the base {base} is another than {pin.base or 'the one it was made of'}"
    elif above.digest != pin.layers[-1]:
        why = "this host's environment holds other files"
    else:
        why = "its configuration is another"
    return SandboxFault(
        f"image {pin.digest[7:19]}, which the corpus pins, is missing; what can be made here is {made[7:19]}: {why}",
        kind="image_differs",
        hint="get the pinned one with `taskforge images load` or `pull`, or replace it on purpose with"
        " `taskforge images build --replace`",
        retryable=False,
    )


def _labels(environment: Environment, *, tools: bool) -> dict[str, str]:
    return {"environment": environment.digest, **({"tools": "1"} if tools else {})}


def _minor(environment: Environment) -> str:
    return ".".join(environment.python.split(".")[:2])
