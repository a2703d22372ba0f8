"""The named sets as text: what they are, where they come from, and what of them is in the cache."""

from narrows.data import NamedSet


def describe(one: NamedSet) -> str:
    """Tell everything about a set, in a few lines."""
    channels, height, width = one.shape
    return "\n".join(
        [
            f"{one.name}: {one.about}",
            f"    {one.count:,} images of {height}x{width}x{channels}; licence: {one.licence}",
            f"    factors: {', '.join(f'{f.name} {f.size}' for f in one.factors)}",
            f"    from {one.home}{download_size(one)}",
            f"    {status(one)}",
        ]
    )


def status(one: NamedSet) -> str:
    """Say whether a set can be used without a network."""
    if one.is_cached:
        return f"cached in {one.folder.parent}"
    get = f"not cached (narrows data get {one.name})"
    return f"official file {get}; drawn when used" if one.draw else f"{get}; downloaded when used"


def download_size(one: NamedSet) -> str:
    """Say how much there is to download, where it is known."""
    sizes = [file.size for file in one.files]
    return f", {sum(s or 0 for s in sizes) / 1e6:,.0f} MB" if all(sizes) else ""
