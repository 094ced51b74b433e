package reference

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/carve-dev/carve/graph/tensor"
)

// zipMap makes a sequence of maps, one per row of [N, C], from the labels of the columns.
func zipMap(c *Call) {
	n, columns := c.rowsAndColumns()
	l := c.labels("classlabels_int64s")
	c.require(l.len() == columns, "classlabels_*", "%d labels for %d columns", l.len(), columns)
	v := c.floats(0)
	out := &tensor.Sequence{Items: make([]tensor.Value, n)}
	words, numbers, all := slices.Clone(l.strs), slices.Clone(l.ints), make([]float32, len(v))
	for i, x := range v {
		all[i] = float32(x)
	}
	maps, rows, shape := make([]tensor.Map, n), make([]tensor.Tensor, n), []int{columns}
	bytes := tensor.From(all).Data
	for r := range n { // whose keys and shapes are the same
		rows[r] = tensor.Tensor{DType: tensor.Float32, Shape: shape, Data: bytes[4*r*columns : 4*(r+1)*columns : 4*(r+1)*columns]}
		maps[r] = tensor.Map{StringKeys: words, IntKeys: numbers, Values: &rows[r]}
		out.Items[r] = &maps[r]
		c.spend(columns)
	}
	c.set(0, out)
}

func (c *Call) mapInput() (m *tensor.Map, values *tensor.Tensor) {
	m, ok := c.value(0).(*tensor.Map)
	if !ok || m == nil {
		c.fail(c.portName(0), tensor.ErrDType, "a map is expected, found %T", c.value(0))
	}
	values, err := m.Dense()
	c.check(c.portName(0), err)
	c.require(m.Len() == values.Len(), c.portName(0), "%d keys for %v", m.Len(), values)
	return m, values
}

// castMap stores the values of a map in the order of its integer keys, or at their places.
func castMap(c *Call) {
	m, values := c.mapInput()
	c.require(len(m.IntKeys) == values.Len(), c.portName(0), "integer keys are expected")
	to, ok := map[string]tensor.DType{"TO_FLOAT": tensor.Float32, "TO_STRING": tensor.String, "TO_INT64": tensor.Int64}[c.Node.Str("cast_to", "TO_FLOAT")]
	if !ok {
		c.fail("cast_to", ErrAttribute, "%q", c.Node.Str("cast_to", ""))
	}
	cast, err := tensor.Convert(values, to, nil)
	c.check(c.portName(0), err)
	order := make([]int, len(m.IntKeys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(m.IntKeys[a], m.IntKeys[b]) })
	size := len(order)
	sparse := c.Node.Str("map_form", "DENSE") == "SPARSE"
	if sparse {
		size = c.positive("max_map", 1)
	}
	src := c.cellsOf(cast)
	c.move(0, to, []int{1, size}, func(dst cells) {
		for k, i := range order {
			if sparse {
				if m.IntKeys[i] < 0 || m.IntKeys[i] >= int64(size) {
					c.fail(c.portName(0), ErrAttribute, "key %d of %d", m.IntKeys[i], size)
				}
				k = int(m.IntKeys[i])
			}
			dst.copy(k, src, i, 1)
		}
	})
}

// dictVectorizer stores the values of a map at the places of their keys in a vocabulary.
func dictVectorizer(c *Call) {
	m, values := c.mapInput()
	at := map[string]int{}
	words := c.Node.Strs("string_vocabulary")
	keys := m.StringKeys
	if ints, ok := c.Node.Ints("int64_vocabulary"); ok {
		words, keys = nil, nil
		for _, v := range ints {
			words = append(words, strconv.FormatInt(v, 10))
		}
		for _, v := range m.IntKeys {
			keys = append(keys, strconv.FormatInt(v, 10))
		}
	}
	c.require(len(keys) == values.Len(), c.portName(0), "the keys have another type than the vocabulary")
	for i, w := range words {
		at[w] = i
	}
	src := c.cellsOf(values)
	c.move(0, values.DType, []int{1, len(words)}, func(dst cells) {
		for i, k := range keys {
			if p, ok := at[k]; ok {
				dst.copy(p, src, i, 1)
			}
		}
	})
}
