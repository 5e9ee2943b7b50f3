"""scikit-build-core for a package whose sources lie around its folder.

Wheels are built in place. A source distribution holds a copy of the library in `library`. The version is that of the library.
"""

import pathlib
import re
import shutil

from scikit_build_core.build import *  # noqa: F403
from scikit_build_core import build as _scikit_build

HERE = pathlib.Path(__file__).resolve().parent.parent
COPY = HERE / "library"
PARTS = ("CMakeLists.txt", "LICENSE", "cmake", "include", "runtime")


def _library():
    return COPY if COPY.exists() else HERE.parent


def dynamic_metadata(field, settings=None):
    """The version, from the library's header."""
    text = (_library() / "include" / "gradkern" / "version.hpp").read_text(encoding="utf-8")
    return ".".join(re.search(rf"#define GRADKERN_VERSION_{part} +(\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def build_sdist(sdist_directory, config_settings=None):
    """A source distribution, with a copy of the library's sources."""
    if COPY.exists():  # this is one
        return _scikit_build.build_sdist(sdist_directory, config_settings)
    try:
        for part in PARTS:
            source = HERE.parent / part
            COPY.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, COPY / part)
            else:
                shutil.copy2(source, COPY / part)
        return _scikit_build.build_sdist(sdist_directory, config_settings)
    finally:
        shutil.rmtree(COPY, ignore_errors=True)
