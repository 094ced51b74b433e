package memplan

// Alike is the method of a plan in the order of Options.Like.
const Alike = "another plan's order/first-fit"

// alike places the items in the order of their offsets in Options.Like, and reports whether that will do. If sizes were the same, none
// would lie higher than it does there.
func (k *packer) alike() bool {
	if k.opt.Like == nil {
		return false
	}
	g := newGreedy(k.p)
	for i, item := range k.p.itemOf {
		if item >= 0 {
			g.keys[item] = ascending(k.opt.Like[i])
		}
	}
	order, ok := g.sorter.sort(g.keys, k.h)
	if !ok {
		return false
	}
	height, ok := g.place(order, firstFit, k.ceiling(), k.h)
	if !ok {
		return false
	}
	k.accept(k.p, g.offs, height, Alike)
	return k.done() || k.opt.Capacity == 0 && float64(height) <= k.opt.Near*float64(k.bound)
}
