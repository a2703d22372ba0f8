"""Which files of a folder are its images.

PNG, JPEG and WebP files are found by their endings in the folder and all folders below it; hidden ones, whose names
start with a dot, are ignored. What has such an ending and is no file, such as a named pipe or a broken symlink, counts
as a broken image. Symlinks are followed (each real folder once, so a loop of links ends) unless they lead out of the
folder: a folder that a stranger packed could so name pictures of yours, and your model would show them.
"""

import os
from pathlib import Path

from narrows._util.errors import NarrowsError
from narrows._util.text import shell_word

ENDINGS = (".png", ".jpg", ".jpeg", ".webp")


def find_images(folder: Path) -> tuple[list[tuple[str, int, int]], int]:
    """Return (relative path, bytes, time) of every image, sorted, and the number of other files.

    Raises:
        NarrowsError: A folder cannot be read, or a symlink leads out of `folder`.
    """

    def refuse(error: OSError) -> None:
        raise NarrowsError(f"{error.filename} cannot be read ({error.strerror}); check its path and mode") from None

    files: list[tuple[str, int, int]] = []
    others = 0
    seen = set()
    for root, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        here = os.stat(root)
        if (here.st_dev, here.st_ino) in seen:
            folders.clear()
            continue
        seen.add((here.st_dev, here.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            _check_link(os.path.join(root, name), folder)
        below = os.path.relpath(root, folder)
        for name in names:
            if name.startswith("."):
                continue
            is_image = name.lower().endswith(ENDINGS)
            if is_image:
                _check_link(os.path.join(root, name), folder)
            path = os.path.normpath(os.path.join(below, name))
            if not is_image:
                others += 1
                continue
            try:
                facts = os.stat(folder / path)
                files.append((path, facts.st_size, facts.st_mtime_ns))
            except OSError:  # a broken symlink
                files.append((path, 0, 0))
    return sorted(files), others


def _check_link(path: str, folder: Path) -> None:
    """Raise if `path` is a symlink to something outside `folder`."""
    if not os.path.islink(path):
        return
    whole, target = os.path.realpath(folder), os.path.realpath(path)
    if os.path.exists(target) and os.path.commonpath([whole, target]) != whole:
        raise NarrowsError(
            f"{path} is a symlink that leads out of the folder, to {target}, where it could name any picture of yours; "
            f"if the links are your own, make a copy that follows them with `cp -rlL {shell_word(folder)} COPY` "
            "(-l makes hard links, which take no space; leave it out for a copy on another disk)"
        )
