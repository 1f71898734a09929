"""What atomics leave of a word (OP-6 to OP-9), in Python."""

WORD = (1 << 64) - 1


def added(before, add, tops):
    """Each field by itself; `tops`: their most significant bits, but for the last one."""
    after, low = 0, 0
    for bit in range(64):
        if bit == 63 or tops >> bit & 1:
            field = (1 << bit + 1 - low) - 1
            after |= ((before >> low & field) + (add >> low & field) & field) << low
            low = bit + 1
    return after


def swapped(before, compare, swap, masks):
    """`masks`: (bits to compare, bits to swap). None: nothing is written."""
    compare_mask, swap_mask = masks
    if before & compare_mask != compare & compare_mask:
        return None
    return before & ~swap_mask | swap & swap_mask


def draw_masks(rng):
    """Of a compare and swap: all bits mostly, as without masks."""
    masks = (WORD, WORD, 0, 0xFF, 0xFFFF0000, 1 << 63, rng.getrandbits(64))
    return (WORD, WORD) if rng.random() < 0.4 else (rng.choice(masks), rng.choice(masks))


def draw_tops(rng):
    """Of a fetch and add: one field mostly, as without masks."""
    some = (1 << 63, 1 << 31, 0x8000_8000_8000_8000, 0x8080_8080_8080_8080, WORD, rng.getrandbits(64))
    return 0 if rng.random() < 0.4 else rng.choice(some)
