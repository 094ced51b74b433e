package layered

import (
	"cmp"
	"slices"
)

// order brings each layer into an order with few crossings: sweeps down and up sort elements by the mean of their neighbours'
// places. The best of the sweeps stays.
func (d *drawing) order() {
	best, least := make([][]int32, len(d.layers)), -1
	keep := func() {
		for i, l := range d.layers {
			best[i] = append(best[i][:0], l...)
		}
	}
	worse := 0
	for sweep := range d.effort {
		if sweep%2 == 0 {
			for i := 1; i < len(d.layers); i++ {
				d.sort(d.layers[i], func(e *element) []int32 { return e.up })
			}
		} else {
			for i := len(d.layers) - 2; i >= 0; i-- {
				d.sort(d.layers[i], func(e *element) []int32 { return e.down })
			}
		}
		n := d.crossings()
		if least < 0 || n < least {
			least, worse = n, 0
			keep()
		} else {
			worse++
		}
		if least == 0 || worse == 4 {
			break
		}
	}
	for i := range d.layers {
		d.layers[i] = best[i]
		d.number(best[i])
	}
}

// sort sorts a layer by the mean of neighbours' places. Elements without neighbours on that side keep theirs, as a share of the layer.
func (d *drawing) sort(layer []int32, side func(*element) []int32) {
	if len(d.scratch) < len(d.e) {
		d.scratch = make([]float64, len(d.e))
	}
	key := d.scratch // places as shares of their layers, which are of different lengths
	for i, at := range layer {
		near := side(&d.e[at])
		if len(near) == 0 {
			key[at] = (float64(i) + 0.5) / float64(len(layer))
			continue
		}
		sum := 0.0
		for _, w := range near {
			sum += (float64(d.pos[w]) + 0.5) / float64(len(d.layers[d.e[w].layer]))
		}
		key[at] = sum / float64(len(near))
	}
	slices.SortFunc(layer, func(a, b int32) int { return cmp.Or(cmp.Compare(key[a], key[b]), cmp.Compare(d.pos[a], d.pos[b])) })
	d.number(layer)
}

// crossings counts the pairs of edges that cross, O(E·log V).
func (d *drawing) crossings() int {
	total := 0
	var tree []int32 // counts of ends seen, as a Fenwick tree
	var ends []int32
	for i := 0; i+1 < len(d.layers); i++ {
		below := len(d.layers[i+1])
		tree = append(tree[:0], make([]int32, below+1)...)
		seen := 0
		for _, at := range d.layers[i] {
			ends = ends[:0]
			for _, w := range d.e[at].down {
				ends = append(ends, d.pos[w])
			}
			for _, p := range ends { // those that end to the right of it begin to the left
				left := int32(0)
				for k := int(p) + 1; k > 0; k -= k & -k {
					left += tree[k]
				}
				total += seen - int(left)
			}
			for _, p := range ends {
				for k := int(p) + 1; k <= below; k += k & -k {
					tree[k]++
				}
			}
			seen += len(ends)
		}
	}
	return total
}
