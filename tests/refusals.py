"""The one line that a user reads when data cannot be used."""

import os

import pytest

from narrows._util.errors import NarrowsError


def refused(call, *arguments, **options):
    """Return the text of the NarrowsError that `call` raises; it must be one line."""
    with pytest.raises(NarrowsError) as caught:
        call(*arguments, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def refused_archive(named, folder):
    """Return why a named set cannot be read from its archive; the text starts with its path, and nothing is cached."""
    text = refused(named.read, folder)
    assert text.startswith(str(folder / named.ARCHIVE.name))
    assert "fetch it again" in text or "check the path" in text
    assert os.listdir(folder / "cache") == []
    assert not named.is_cached()
    return text
