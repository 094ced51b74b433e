package cpu

import (
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/kernel/shortrow"
	"github.com/carve-dev/carve/internal/kernel/vec"
	"github.com/carve-dev/carve/internal/operators"
	"github.com/carve-dev/carve/internal/place"
	"github.com/carve-dev/carve/property"
)

// Normalisation of images over groups of channels, and over neighbouring channels: of row-major ones, but see blockedNorm.

// groupsOf returns the number of groups that a normalisation has: one per channel, or an attribute.
func groupsOf(n *graph.Node, channels int) int {
	if n.Is("InstanceNormalization") {
		return channels
	}
	return int(n.Int("num_groups", 0))
}

func groupNormSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	if !operators.IsFloat32(n.Inputs...) {
		return nil, operators.NotFloat32(n.Inputs[0])
	}
	return normalisedGroups(n)
}

// normalisedGroups are the signatures of a normalisation over groups of channels, of whatever type.
func normalisedGroups(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if n.Is("InstanceNormalization") && len(x.Type.Shape) > 2 { // a group is a channel, however many there are
		for _, v := range n.Inputs[1:] {
			if !mayBe(v.Type.Shape, x.Type.Shape[1:2]) {
				return nil, property.Because(property.ShapeReason, "%v is %v, not of the channels of %v", v, v.Type, x.Type)
			}
		}
		return normalisedFormats(n), nil
	}
	c, ok := operators.ConstDim(x, 1)
	if scale := n.Inputs[1]; !ok && n.Op.Since >= 21 && len(scale.Type.Shape) == 1 { // of each channel
		c, ok = operators.ConstDim(scale, 0)
	}
	if !ok || len(x.Type.Shape) < 3 {
		return nil, property.Because(property.ShapeReason, "%v is %v", x, x.Type)
	}
	g := groupsOf(n, c)
	if c == 0 || g < 1 || c%g != 0 {
		return nil, property.Because(property.Attribute, "%d groups of %d channels", g, c)
	}
	want := c
	if n.Is("GroupNormalization") && n.Op.Since < 21 { // scales belong to groups
		want = g
	}
	for _, v := range n.Inputs[1:] {
		if s := v.Type.Shape; len(s) != 1 || !s[0].Is(int64(want)) {
			return nil, property.Because(property.ShapeReason, "%v is %v, not of %d", v, v.Type, want)
		}
	}
	return normalisedFormats(n), nil
}

// normalisedFormats are the signatures of a normalisation in the formats that there are kernels for: blocked images of float32, too.
func normalisedFormats(n *graph.Node) []graph.Signature {
	if operators.IsFloat32(n.Inputs[0]) {
		return followSignatures(n, 1)
	}
	return operators.RowMajor(n)
}

// nearGroups is how many elements kernels go over one after the other, in mostNear groups at most.
const (
	nearGroups = 4096
	mostNear   = 128
)

// groupScale normalises groups of row elements by their moments: elements are multiplied by a scale and moved, which are one for each group or each
// channel of it. So a group is read three times and written once.
type groupScale struct {
	moments, scales vec.Kernels
	row, perGroup   int // elements, and scales
	eps             float32
	lo, hi          float32 // bounds of results
}

// normalise computes groups that lie one behind the other, mostNear at most. gamma and beta are those of the first and of what follows it.
func (g *groupScale) normalise(dst, src, gamma, beta []float32) {
	var found [2 * mostNear]float32
	var scale, shift [mostNear]float32
	groups, width := len(src)/g.row, g.row/g.perGroup
	g.moments.Moments(found[:2*groups], src, g.row, groups, g.row, g.eps)
	for at, all := 0, groups*g.perGroup; at < all; {
		n := min(all-at, mostNear)
		for i := range n {
			of := (at + i) / g.perGroup
			mean, k := found[2*of], found[2*of+1]
			scale[i] = k * gamma[at+i]
			shift[i] = float32(float64(beta[at+i]) - float64(mean)*float64(scale[i]))
		}
		g.scales.MulAddRows(dst[at*width:], width, src[at*width:], width, scale[:], shift[:], n, width, g.lo, g.hi)
		at += n
	}
}

// fitsGroups returns why channels of x that a run finds have other scales, or are none of whole groups; nil where neither is so.
func (p *planner) fitsGroups(n *graph.Node, in []*graph.Value, groups, scales int) error {
	channels := p.Dims[in[0].ID][1]
	for _, v := range in[1:] {
		if d := p.Dims[v.ID]; len(d) != 1 || d[0] != groups*scales || channels%groups != 0 {
			return property.Because(property.ShapeReason, "%v: %v of shape %v for %d channels in %d groups", n, v, d, channels, groups)
		}
	}
	return nil
}

func planGroupNorm(p *planner, n *graph.Node) error {
	return p.groupNorm(n, n.Inputs, n.Outputs[0], tail{})
}

// groupNorm emits a normalisation over groups with its activation; in are its operands as the subgraph knows them.
func (p *planner) groupNorm(n *graph.Node, in []*graph.Value, y *graph.Value, t tail) error {
	x := in[0]
	d := p.Dims[x.ID]
	channels, hw := d[1], product(d[2:])
	if channels == 0 {
		return nil
	}
	groups := groupsOf(n, channels)
	per := channels / groups
	row := per * hw
	scales := per // of a group
	if n.Is("GroupNormalization") && n.Op.Since < 21 {
		scales = 1
	}
	if err := p.fitsGroups(n, in, groups, scales); err != nil {
		return err
	}
	if inBlocks(x.Format) {
		return p.blockedNorm(n, in, y, t)
	}
	near := ceilDiv(nearGroups, max(row, nearGroups/mostNear)) // groups that stay in the core's caches between kernels
	few := shortrow.For(p.target)
	short := few.Fast() && scales == 1 && row <= shortrow.Longest && row > 0 && !t.act.clip
	eps := n.Float("epsilon", 1e-5)
	src, gamma, beta, dst := p.In(x), p.In(in[1]), p.In(in[2]), p.Out(y)
	reads, _ := src.Runs(4 * row)
	writes, _ := dst.Runs(4 * row)
	if reads.Near != 4*row || writes.Near != 4*row { // strided rows of a group each: no two lie one behind the other
		near = 1
	}
	scale := groupScale{moments: p.kernels, scales: p.into(dst), row: row, perGroup: scales, eps: eps}
	scale.lo, scale.hi = vec.Unbounded()
	if t.act.clip {
		scale.lo, scale.hi = t.act.lo, t.act.hi
	}
	post := t.post(p.kernels)
	if post != nil {
		scale.scales = p.kernels
	}
	p.emit(step{chunks: d[0] * groups, grain: grainFor(float64(row)*0.4 + 10), body: func(st *state, _, lo, hi int) {
		o, s, g, b := st.F32(dst), st.F32(src), st.F32(gamma), st.F32(beta)
		for i := lo; i < hi; {
			of, n := reads.At(i, min(hi-i, near, groups-i%groups))
			at, n := writes.At(i, n)
			whole := o[at/4:][:n*row]
			first := i % groups * scales
			if short {
				few.Normalise(whole, s[of/4:][:n*row], row, g[first:], b[first:], eps)
			} else {
				scale.normalise(whole, s[of/4:][:n*row], g[first:], b[first:])
			}
			if post != nil {
				post(whole)
			}
			i += n
		}
	}}, []place.Memory{src, gamma, beta}, []place.Memory{dst})
	return nil
}

// settleGroupNorm lets the result overwrite blocked images.
func settleGroupNorm(p *planner, n *graph.Node) {
	if inBlocks(n.Inputs[0].Format) {
		overFirst(p, n)
	}
}

// groupNormStrided is the Strided of group normalisations: of images, or groups of channels, that strided rows hold whole.
func groupNormStrided(p *planner, n *graph.Node, v *graph.Value, m place.Memory) bool {
	if inBlocks(v.Format) {
		return imagesStrided(p, n, v, m)
	}
	if v != n.Inputs[0] && v != n.Outputs[0] {
		return false
	}
	d := p.Dims[v.ID]
	_, ok := m.Runs(4 * d[1] / groupsOf(n, d[1]) * product(d[2:]))
	return ok
}

func lrnSignatures(n *graph.Node) ([]graph.Signature, *property.Reason) {
	x := n.Inputs[0]
	if !operators.IsFloat32(x) {
		return nil, operators.NotFloat32(x)
	}
	if len(x.Type.Shape) < 2 || n.Int("size", 0) < 1 {
		return nil, property.Because(property.Attribute, "size %d over %v", n.Int("size", 0), x.Type)
	}
	return operators.RowMajor(n), nil
}

// planLRN emits x / (bias + alpha/size·Σ x²)^beta, the sum being over size channels around each.
func planLRN(p *planner, n *graph.Node) error {
	x := n.Inputs[0]
	d := p.Dims[x.ID]
	channels, hw, size := d[1], product(d[2:]), int(n.Int("size", 0))
	alpha, beta, bias := n.Float("alpha", 1e-4)/float32(size), n.Float("beta", 0.75), n.Float("bias", 1)
	src, dst, kernels := p.In(x), p.Out(n.Outputs[0]), p.kernels
	p.emit(step{chunks: d[0] * channels, grain: grainFor(float64(hw) * (30 + float64(min(size, channels)))), body: func(st *state, _, lo, hi int) {
		o, s := st.F32(dst), st.F32(src)
		for i := lo; i < hi; i++ {
			image, c := i/channels*channels, i%channels
			out := o[i*hw : (i+1)*hw]
			clear(out)
			for k := max(0, c-(size-1)/2); k <= min(channels-1, c+size/2); k++ {
				for j, v := range s[(image+k)*hw : (image+k+1)*hw] {
					out[j] += v * v
				}
			}
			kernels.BinaryScalar(vec.Mul, out, out, alpha)
			kernels.BinaryScalar(vec.Add, out, out, bias)
			kernels.Pow(out, out, -beta)
			kernels.Binary(vec.Mul, out, out, s[i*hw:(i+1)*hw])
		}
	}}, []place.Memory{src}, []place.Memory{dst})
	return nil
}

func init() {
	for _, name := range []string{"InstanceNormalization", "GroupNormalization"} {
		table.Register(name, operator{Signatures: groupNormSignatures, Settle: settleGroupNorm, Plan: planGroupNorm, Strided: groupNormStrided})
	}
	table.Register("LRN", operator{Signatures: lrnSignatures, Plan: planLRN})
}
