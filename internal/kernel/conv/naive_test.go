package conv_test

import (
	"math"
	"math/rand/v2"

	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// plain is a tensor in NCHW with float64 elements.
type plain struct {
	n, c, h, w int
	v          []float64
}

func newPlain(n, c, h, w int) *plain { return &plain{n, c, h, w, make([]float64, n*c*h*w)} }

func (p *plain) at(n, c, y, x int) *float64 { return &p.v[((n*p.c+c)*p.h+y)*p.w+x] }

func (p *plain) row(n, c, y int) []float64 { return p.v[((n*p.c+c)*p.h+y)*p.w:][:p.w] }

func (p *plain) random(r *rand.Rand) *plain {
	for i := range p.v {
		p.v[i] = float64(float32(r.NormFloat64()))
	}
	return p
}

// blocked writes the tensor as NCHW16c into a buffer of images that lie image floats apart.
func (p *plain) blocked(dst []float32, image int) {
	for n := range p.n {
		for c := range p.c {
			for y := range p.h {
				for x := range p.w {
					dst[n*image+((c/16*p.h+y)*p.w+x)*16+c%16] = float32(*p.at(n, c, y, x))
				}
			}
		}
	}
}

// rounded rounds every element to a type.
func (p *plain) rounded(y pairs.Type) *plain {
	var word [pairs.Lanes]uint32
	for i, v := range p.v {
		y.Across(isa.Target{}, word[:], []float32{float32(v)}, 1, 1, 1)
		p.v[i] = float64(y.At(word[:], 0, 0))
	}
	return p
}

// small makes the elements whole numbers of at most 2, of whose products float16 adds up 512 at least without an error.
func (p *plain) small() {
	for i, v := range p.v {
		p.v[i] = max(-2, min(2, math.Round(v)))
	}
}

// words writes the tensor as blocks of 8 words of two channels into a buffer of images that lie image words apart.
func (p *plain) words(y pairs.Type, dst []float32, image int) {
	floats := make([]float32, 2*len(dst))
	p.blocked(floats, 2*image)
	y.Along(isa.Target{}, pairs.OfFloats(dst), floats)
}

// pixels writes the tensor, of bfloat16, with the words of a pixel side by side.
func (p *plain) pixels(dst []float32, image int) {
	row := make([]float32, (p.c+15)/16*16)
	for n := range p.n {
		for i := range p.h * p.w {
			for c := range p.c {
				row[c] = float32(*p.at(n, c, i/p.w, i%p.w))
			}
			pairs.BFloat16.Along(isa.Target{}, pairs.OfFloats(dst[n*image+i*len(row)/2:]), row)
		}
	}
}

// sourceChannels returns how many elements of 4 bytes a pixel of the source of a spec has.
func sourceChannels(s *conv.Spec) int {
	switch blocks := (s.C + 15) / 16; {
	case s.Source == conv.Planar:
		return s.C
	case s.Pairs != pairs.Float32:
		return 8 * blocks
	default:
		return 16 * blocks
	}
}

// source writes the tensor as a spec reads it, rounded where that says so.
func (p *plain) source(s *conv.Spec, dst []float32, image int) {
	switch {
	case s.Source == conv.Planar:
		p.planar(dst, image)
	case s.Source == conv.Pixels:
		p.rounded(s.Pairs).pixels(dst, image)
	case s.Pairs != pairs.Float32:
		p.rounded(s.Pairs).words(s.Pairs, dst, image)
	default:
		p.blocked(dst, image)
	}
}

func (p *plain) planar(dst []float32, image int) {
	for i, v := range p.v {
		per := p.c * p.h * p.w
		dst[i/per*image+i%per] = float32(v)
	}
}

// naiveConv is the definition of the operator.
func naiveConv(s *conv.Spec, src *plain, w []float64, bias []float64, oh, ow int) *plain {
	groups := max(1, s.Groups)
	dst := newPlain(s.N, s.OC, oh, ow)
	one := func(v int) int { return max(1, v) }
	sh, sw, dh, dw := one(s.Stride[0]), one(s.Stride[1]), one(s.Dilate[0]), one(s.Dilate[1])
	icg, ocg := s.C/groups, s.OC/groups
	for n := range s.N {
		for oc := range s.OC {
			for y := range oh {
				for x := range ow {
					*dst.at(n, oc, y, x) = bias[oc]
				}
			}
		}
		for g := range groups {
			for o := range ocg {
				for i := range icg {
					for ky := range s.Kernel[0] {
						for kx := range s.Kernel[1] {
							oc, ic := g*ocg+o, g*icg+i
							if s.Transposed {
								wv := w[((ic*ocg+o)*s.Kernel[0]+ky)*s.Kernel[1]+kx]
								for y := range s.H {
									ty := y*sh + ky*dh - s.Pad[0]
									if ty < 0 || ty >= oh {
										continue
									}
									to, from := dst.row(n, oc, ty), src.row(n, ic, y)
									for x, v := range from {
										if tx := x*sw + kx*dw - s.Pad[1]; tx >= 0 && tx < ow {
											to[tx] += wv * v
										}
									}
								}
								continue
							}
							wv := w[((oc*icg+i)*s.Kernel[0]+ky)*s.Kernel[1]+kx]
							for y := range oh {
								ty := y*sh + ky*dh - s.Pad[0]
								if ty < 0 || ty >= s.H {
									continue
								}
								to, from := dst.row(n, oc, y), src.row(n, ic, ty)
								for x := range to {
									if tx := x*sw + kx*dw - s.Pad[1]; tx >= 0 && tx < s.W {
										to[x] += wv * from[tx]
									}
								}
							}
						}
					}
				}
			}
		}
	}
	return dst
}

func naivePool(s *conv.PoolSpec, src *plain, oh, ow int) *plain {
	one := func(v int) int { return max(1, v) }
	sh, sw, dh, dw := one(s.Stride[0]), one(s.Stride[1]), one(s.Dilate[0]), one(s.Dilate[1])
	dst := newPlain(s.N, s.C, oh, ow)
	for n := range s.N {
		for c := range s.C {
			for y := range oh {
				for x := range ow {
					best, sum, count, padded := math.Inf(-1), 0.0, 0, 0
					for ky := range s.Kernel[0] {
						for kx := range s.Kernel[1] {
							ty, tx := y*sh+ky*dh-s.Pad[0], x*sw+kx*dw-s.Pad[1]
							if ty >= -s.Pad[0] && tx >= -s.Pad[1] && ty < s.H+max(0, s.Pad[2]) && tx < s.W+max(0, s.Pad[3]) {
								padded++
							}
							if ty >= 0 && tx >= 0 && ty < s.H && tx < s.W {
								v := *src.at(n, c, ty, tx)
								best, sum, count = max(best, v), sum+v, count+1
							}
						}
					}
					out := best
					switch {
					case s.Pooling == conv.Average:
						out = sum / float64(max(1, count))
					case s.Pooling == conv.AveragePadded:
						out = sum / float64(max(1, padded))
					}
					*dst.at(n, c, y, x) = out
				}
			}
		}
	}
	return dst
}

// finish applies the epilogue.
func (p *plain) finish(e *conv.Epilogue, res *plain, post func(v float64, channel int) float64) {
	for i := range p.v {
		v := p.v[i]
		if e.Residual {
			v += res.v[i]
		}
		if e.Lo != 0 || e.Hi != 0 {
			v = math.Min(math.Max(v, float64(e.Lo)), float64(e.Hi))
		}
		if post != nil {
			v = post(v, i/(p.h*p.w)%p.c)
		}
		p.v[i] = v
	}
}
