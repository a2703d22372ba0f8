"""The named sets as text, for `narrows data list`."""

from narrows.data import NamedSet


def describe(named: NamedSet) -> str:
    """Format everything that is known about a set, in five lines."""
    channels, height, width = named.shape
    sizes = [file.size for file in named.files]
    download = f", {sum(size or 0 for size in sizes) / 1e6:,.0f} MB" if all(sizes) else ""
    missing = f"not cached (narrows data get {named.name})"
    status = f"official file {missing}; drawn when used" if named.draw else f"{missing}; downloaded when used"
    return "\n".join(
        [
            f"{named.name}: {named.about}",
            f"    {named.count:,} images of {height}x{width}x{channels}; licence: {named.licence}",
            f"    factors: {', '.join(f'{factor.name} {factor.size}' for factor in named.factors)}",
            f"    from {named.home}{download}",
            f"    {f'cached in {named.folder.parent}' if named.is_cached else status}",
        ]
    )
