package reference

import (
	"math"
)

var softmaxKernels = []kernel{
	{"Softmax", 1, softmaxLike(softmax)},
	{"LogSoftmax", 1, softmaxLike(func(row []float64) {
		s := logSumExp(row)
		for i := range row {
			row[i] -= s
		}
	})},
	{"Hardmax", 1, softmaxLike(func(row []float64) {
		best := 0
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		clear(row)
		row[best] = 1
	})},
}

// softmax normalises a row in place. A row of nothing but -Inf becomes NaN, as the operator's definition has it.
func softmax(row []float64) {
	m := math.Inf(-1)
	for _, v := range row {
		m = maxFloat(m, v)
	}
	s := 0.0
	for i, v := range row {
		row[i] = math.Exp(v - m)
		s += row[i]
	}
	for i := range row {
		row[i] /= s
	}
}

// softmaxLike applies f to rows along the axis; before version 13, to all dims from the axis on as one row.
func softmaxLike(f func(row []float64)) func(*Call) {
	return func(c *Call) {
		x := c.input(0)
		c.wantType(0, x, x.DType.IsFloat())
		v := c.floats(0)
		var outer, n, inner int
		if c.version < 13 {
			axis := c.Node.Int("axis", 1)
			if axis < 0 {
				axis += int64(len(x.Shape))
			}
			if axis < 0 || axis > int64(len(x.Shape)) {
				c.fail("axis", ErrAttribute, "%d for rank %d", axis, len(x.Shape))
			}
			outer, n, inner = product(x.Shape[:axis]), product(x.Shape[axis:]), 1
		} else {
			outer, n, inner = split3(x.Shape, c.axisAttr(-1, len(x.Shape)))
		}
		if len(v) > 0 {
			alongAxis(c, v, outer, n, inner, f)
		}
		c.putFloats(0, x.DType, x.Shape, v)
	}
}

// alongAxis applies f to every row along the middle one of three dims, in place.
func alongAxis(c *Call, v []float64, outer, n, inner int, f func(row []float64)) {
	if inner == 1 {
		for o := range outer {
			f(v[o*n : (o+1)*n])
			c.spend(8 * n)
		}
		return
	}
	row := make([]float64, n)
	for o := range outer {
		for in := range inner {
			for k := range row {
				row[k] = v[(o*n+k)*inner+in]
			}
			f(row)
			for k := range row {
				v[(o*n+k)*inner+in] = row[k]
			}
			c.spend(8 * n)
		}
	}
}
