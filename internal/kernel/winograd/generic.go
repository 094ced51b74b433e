package winograd

import (
	"math"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/winograd/points"
)

// addScaled adds c times x to acc.
func addScaled(acc *pixel, c float32, x *pixel) {
	for l, v := range x {
		acc[l] += float32(c * v)
	}
}

// line transforms source values along one axis.
func line(m int, d []pixel, store func(i int, y *pixel)) {
	poly := func(q []float64, first int) (y pixel) {
		for k := len(q) - 1; k >= 0; k-- {
			addScaled(&y, float32(q[k]), &d[first+2*k])
		}
		return y
	}
	all := points.EvenPoly(m, -1)
	y := poly(all, 0)
	store(0, &y)
	for i, p := range points.Pairs(m) {
		q := points.EvenPoly(m, i)
		even, odd := poly(q, 2), poly(q, 1)
		plus, minus := even, even
		addScaled(&plus, float32(p), &odd)
		addScaled(&minus, float32(-p), &odd)
		store(1+2*i, &plus)
		store(2+2*i, &minus)
	}
	y = poly(all, 1)
	store(len(d)-1, &y)
}

// genericInput does in Go what the assembly does.
func genericInput(m int, c *inputCall) {
	n := m + 2
	temp := unsafe.Slice((*pixel)(c.temp), n*n)
	var d [points.MaxSide]pixel
	for b := range c.blocks {
		for j := range n {
			for i := range n {
				d[i] = pixel{}
				if c.rows>>i&1 != 0 && c.cols>>j&1 != 0 {
					d[i] = *(*pixel)(unsafe.Add(c.src, b*c.plane+c.off[i]+64*j))
				}
			}
			line(m, d[:n], func(i int, y *pixel) { temp[i*n+j] = *y })
		}
		for i := range n {
			line(m, temp[i*n:(i+1)*n], func(j int, y *pixel) {
				*(*pixel)(unsafe.Add(c.dst, (i*n+j)*c.point+64*b)) = *y
			})
		}
	}
	c.blocks = 0
}

// back transforms products along one axis to m results.
func back(m int, x []pixel, out []pixel) {
	for k := range m {
		var y pixel
		switch k {
		case 0:
			y = x[0]
		case m - 1:
			y = x[len(x)-1]
		}
		for i, p := range points.Pairs(m) {
			f, sign := float32(math.Pow(p, float64(k))), float32(1)
			if k%2 == 1 {
				sign = -1
			}
			both := x[1+2*i]
			addScaled(&both, sign, &x[2+2*i])
			addScaled(&y, f, &both)
		}
		out[k] = y
	}
}

// genericOutput does in Go what the assembly does.
func genericOutput(m int, c *outputCall) {
	n := m + 2
	temp := unsafe.Slice((*pixel)(c.temp), m*n)
	var x [points.MaxSide]pixel
	var y [points.F4]pixel
	for b := range c.blocks {
		for j := range n {
			for i := range n {
				x[i] = *(*pixel)(unsafe.Add(c.src, (i*n+j)*c.point+64*b))
			}
			back(m, x[:n], y[:m])
			for r := range m {
				temp[r*n+j] = y[r]
			}
		}
		flags := c.flags
		if b == c.blocks-1 {
			flags = c.last
		}
		bias := (*pixel)(unsafe.Add(c.bias, 64*b))
		for r := range c.rows {
			back(m, temp[r*n:(r+1)*n], y[:m])
			for k := range c.cols {
				at := b*c.plane + r*c.row + 64*k
				addScaled(&y[k], 1, bias)
				if c.res != nil {
					addScaled(&y[k], 1, (*pixel)(unsafe.Add(c.res, at)))
				}
				c.limit(&y[k], flags)
				*(*pixel)(unsafe.Add(c.dst, at)) = y[k]
			}
		}
	}
}

// limit bounds and masks results. NaN stays NaN.
func (c *outputCall) limit(y *pixel, flags int) {
	for l, v := range y {
		if flags&flagMax != 0 && v < c.lo {
			v = c.lo
		}
		if flags&flagMin != 0 && v > c.hi {
			v = c.hi
		}
		if flags&flagMask != 0 && c.mask[l] == 0 {
			v = 0
		}
		y[l] = v
	}
}

// genericFilter does in Go what the assembly does.
func genericFilter(m int, dst, src *float32, point, n int) {
	g := points.FilterRows(m)
	for c := range n {
		taps := (*[9]pixel)(unsafe.Add(unsafe.Pointer(src), c*9*64))
		for i, a := range g {
			var half [3]pixel
			for x := range half {
				for y := range 3 {
					addScaled(&half[x], float32(a[y]), &taps[3*y+x])
				}
			}
			for j, b := range g {
				var u pixel
				for x := range half {
					addScaled(&u, float32(b[x]), &half[x])
				}
				*(*pixel)(unsafe.Add(unsafe.Pointer(dst), (i*len(g)+j)*point+64*c)) = u
			}
		}
	}
}
