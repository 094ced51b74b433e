package memplan

// blocking divides the sections into blocks of neighbours, such that few
// pieces of items begin or end inside a block. It is immutable.
type blocking struct {
	block []int32 // per section, and the number of blocks behind the last
	start []int32 // first section of each block, and the number of sections
	at    []int32 // pieces that lie partly in the blocks before, at the end all
}

// maxInside returns the largest number of pieces that may begin or end inside
// a block of several sections. More of them make the lists longer, fewer the
// tree higher; where few items are alive at one time the tree is nearly empty.
func maxInside(alive float64) int32 { return int32(min(max(16, 2*alive), 128)) }

// newBlocking makes blocks for the pieces of p, as long as they may be, or
// returns nil when h ended. Cost O(pieces + sections).
func newBlocking(p *problem, h halt) *blocking {
	events := make([]int32, p.sections+1) // pieces that begin or end right before a section
	for i := range p.items {
		if i&chunkMask == 0 && h.stopped() {
			return nil
		}
		for _, q := range p.pieces[p.items[i].lo:p.items[i].hi] {
			events[q.first]++
			events[q.last]++
		}
	}
	b := &blocking{block: make([]int32, p.sections+1)}
	inside, most := int32(0), maxInside(p.alive())
	for s := range p.sections {
		if inside += events[s]; s == 0 || inside > most {
			b.start = append(b.start, s)
			inside = 0
		}
		b.block[s] = int32(len(b.start)) - 1
	}
	b.block[p.sections] = int32(len(b.start))
	b.start = append(b.start, p.sections)
	b.at = make([]int32, len(b.start))
	for i := range p.items {
		if i&chunkMask == 0 && h.stopped() {
			return nil
		}
		for _, q := range p.pieces[p.items[i].lo:p.items[i].hi] {
			_, _, head, tail := b.split(q.first, q.last)
			for _, k := range [2]int32{head, tail} {
				if k >= 0 {
					b.at[k+1]++
				}
			}
		}
	}
	for k := range b.count() {
		b.at[k+1] += b.at[k]
	}
	return b
}

// count is the number of blocks.
func (b *blocking) count() int32 { return int32(len(b.start)) - 1 }

// split returns the blocks [from, to) that lie in the sections [first, last),
// and the blocks at the ends that do in part, -1 for none.
func (b *blocking) split(first, last int32) (from, to, head, tail int32) {
	from, to, head, tail = b.block[first], b.block[last], -1, -1
	if b.start[from] != first {
		head = from
		from++
	}
	if b.start[to] != last {
		if to != head {
			tail = to
		}
	}
	return from, max(from, to), head, tail
}
