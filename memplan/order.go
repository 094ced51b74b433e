package memplan

// rule is an order of placing items.
type rule struct {
	name string
	key  func(p *problem, it *item) uint64 // items with smaller keys first
}

// duration returns the lifetime in units of the caller's time.
func (p *problem) duration(i int32) float64 {
	b := &p.bufs[i]
	return float64(b.Upper) - float64(b.Lower)
}

// sectionsOf is the number of sections that an item spans, gaps included.
func sectionsOf(it *item) float64 { return float64(it.last - it.first) }

var (
	sizeFirst = rule{"size", func(_ *problem, it *item) uint64 {
		return descending(it.size)
	}}
	areaFirst = rule{"area", func(_ *problem, it *item) uint64 {
		return descendingFloat(float64(it.size) * sectionsOf(it))
	}}
	birthFirst = rule{"birth", func(_ *problem, it *item) uint64 {
		return ascending(int64(it.first))
	}}
	durationFirst = rule{"duration", func(_ *problem, it *item) uint64 {
		return descendingFloat(sectionsOf(it))
	}}
)

// tactic is a heuristic: an order and a fit.
type tactic struct {
	rule rule
	fit  fit
}

func (t tactic) name() string {
	if t.fit == firstFit {
		return t.rule.name + "/first-fit"
	}
	return t.rule.name + "/best-fit"
}

// tactics are tried in this order until one meets the lower bound.
var tactics = []tactic{
	{sizeFirst, bestFit},
	{areaFirst, firstFit},
	{birthFirst, bestFit},
	{durationFirst, firstFit},
	{sizeFirst, firstFit},
	{areaFirst, bestFit},
	{durationFirst, bestFit},
	{birthFirst, firstFit},
}

// order returns the items as r has them, ties by number, or false when h
// ended.
func (p *problem) order(r rule, s *sorter, h halt) ([]int32, bool) {
	keys := make([]uint64, len(p.items))
	for i := range p.items {
		keys[i] = r.key(p, &p.items[i])
	}
	return s.sort(keys, h)
}
