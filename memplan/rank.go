package memplan

import (
	"math/rand/v2"
	"slices"
)

// traits are what orders of items are made of.
type traits struct {
	width, area, size, total []float64
}

// traits returns each item's number of sections, its area, its size and
// the load of its busiest section.
func (m *model) traits() *traits {
	t := &traits{
		width: make([]float64, m.n), area: make([]float64, m.n),
		size: make([]float64, m.n), total: make([]float64, m.n),
	}
	for i := range m.n {
		t.width[i] = float64(m.last[i] - m.first[i])
		t.size[i] = float64(m.size[i])
		t.area[i] = t.width[i] * t.size[i]
		for q := m.first[i]; q < m.last[i]; q++ {
			t.total[i] = max(t.total[i], float64(m.load[q]))
		}
	}
	return t
}

// orders returns the keys of the static orders, largest first, ties by the
// next key. The first three are MiniMalloc's (ASPLOS 2023).
func (t *traits) orders() [][][]float64 {
	return [][][]float64{
		{t.width, t.area, t.total},
		{t.total, t.area, t.width},
		{t.total, t.width, t.area},
		{t.area, t.total},
		{t.size, t.width},
	}
}

// rankItems sets rank from keys, each multiplied by a random factor between 1
// and 1 + noise. It leaves it alone when h ended.
func (o *sorter) rankItems(rank []int32, keys [][]float64, noise float64, r *rand.Rand, h halt) {
	n := len(rank)
	if noise > 0 {
		shaken := make([][]float64, len(keys))
		for k := range keys {
			shaken[k] = make([]float64, n)
			for i, v := range keys[k] {
				shaken[k][i] = v * (1 + noise*r.Float64())
			}
		}
		keys = shaken
	}
	order, bits := identity(n), make([]uint64, n)
	for _, key := range slices.Backward(keys) { // stable: the first key decides in the end
		for i, b := range order {
			bits[i] = descendingFloat(key[b])
		}
		perm, ok := o.sort(bits, h)
		if !ok {
			return
		}
		for i, k := range perm {
			perm[i] = order[k]
		}
		order = perm
	}
	for i, b := range order {
		rank[b] = int32(i)
	}
}
