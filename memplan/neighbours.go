package memplan

// maxNear is how many items an item may overlap in time, of those born before
// it, on average, for neighbours to be listed. With more of them an occupancy
// is faster.
const maxNear = 32

// maxNeighbours is how many items neighbours are listed for, as the lists and
// the sets take some 300 bytes for each.
const maxNeighbours = 1 << 18

// neighbours lists for every item those that it overlaps in time. Items are
// known here by their place in order of birth: an item overlaps some that
// come before it, which are listed, and all that come after it up to a place.
// It is immutable.
type neighbours struct {
	place []int32 // per item
	until []int32 // per place: the next ones up to here overlap it
	at    []int32 // per place: those before it are early[at[k]:at[k+1]]
	early []int32
}

// newNeighbours returns nil when there are too many items or items overlap too
// many others, when some item has several pieces or is fixed, and when h ended. Cost O(n) and O(1) per
// pair.
func newNeighbours(p *problem, h halt) *neighbours {
	n := len(p.items)
	if !p.plain || n > maxNeighbours || p.alive() > maxNear {
		return nil
	}
	begins := make([]int32, p.sections+1) // items born in earlier sections
	for i := range p.items {
		begins[p.items[i].first+1]++
	}
	for s := range p.sections {
		begins[s+1] += begins[s]
	}
	b := &neighbours{place: make([]int32, n), until: make([]int32, n), at: make([]int32, n+1)}
	next := make([]int32, p.sections)
	for i := range p.items {
		s := p.items[i].first
		k := begins[s] + next[s]
		next[s]++
		b.place[i] = k
		b.until[k] = begins[p.items[i].last]
	}
	var live []int32
	b.early = make([]int32, 0, n*int(p.alive()+1))
	for k := range n {
		if k&pollMask == 0 && h.stopped() {
			return nil
		}
		kept := live[:0]
		for _, j := range live {
			if int(b.until[j]) > k {
				kept = append(kept, j)
			}
		}
		b.early = append(b.early, kept...)
		if len(b.early) > maxNear*n {
			return nil
		}
		b.at[k+1] = int32(len(b.early))
		live = append(kept, int32(k))
	}
	return b
}

// obstacles knows which addresses are taken for items that are not placed yet.
// Each has a set of extents of its own, in which gaps too small for it are
// closed: where few items are alive at one time, such sets are very short.
type obstacles struct {
	*neighbours
	size []int64 // per place
	sets [][]extent
	done []bool // per place
}

func newObstacles(p *problem, b *neighbours) *obstacles {
	const first = 4 // extents that a set has memory for
	n := len(p.items)
	o := &obstacles{neighbours: b, size: make([]int64, n), sets: make([][]extent, n), done: make([]bool, n)}
	slab := make([]extent, first*n)
	for i := range p.items {
		k := b.place[i]
		o.size[k] = p.items[i].size
		o.sets[k] = slab[first*i : first*i : first*i+first]
	}
	return o
}

// reset empties o and keeps its memory.
func (o *obstacles) reset() {
	for k := range o.sets {
		o.sets[k] = o.sets[k][:0]
	}
	clear(o.done)
}

// add takes e for the lifetime of item i.
func (o *obstacles) add(i int32, e extent) {
	k := o.place[i]
	o.done[k] = true
	for _, j := range o.early[o.at[k]:o.at[k+1]] {
		if !o.done[j] {
			o.sets[j] = uniteExtent(o.sets[j], e, o.size[j])
		}
	}
	for j := k + 1; j < o.until[k]; j++ {
		if !o.done[j] {
			o.sets[j] = uniteExtent(o.sets[j], e, o.size[j])
		}
	}
}
