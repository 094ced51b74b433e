package winograd

import (
	"github.com/carve-dev/carve/internal/kernel/conv"
	"github.com/carve-dev/carve/internal/kernel/gemm"
	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
)

// Plan is a convolution by F(m) made ready for given shapes. It is immutable and safe for concurrent use.
type Plan struct {
	spec    conv.Spec // with sizes and distances filled in
	m       int
	target  isa.Target
	weights Weights

	blocks   []block
	groups   []group
	products [][]*gemm.Plan // by block and group
	lanes    int            // in use in the last output block, 16: all

	sourceRow     int // floats of a tile in the matrix of a point of the source
	sourcePoint   int // floats between those matrices
	productPoint  int // the same of products
	source        int // floats of all
	product, temp int
	zeros         []float32 // in the place of a bias that there is not
}

// block is a rectangle of tiles that are transformed together.
type block struct{ row, col, rows, cols int }

func (b block) tiles() int { return b.rows * b.cols }

// group is a run of blocks of output channels that are computed together.
type group struct{ first, count int }

// How many sixteenths of the second-level cache the transformed source of a block of tiles may fill, and its products with a group of
// output channels. Below leastTiles the weights, which each block reads, would take longer to come from memory than to be multiplied.
const (
	sourceShare  = 6
	productShare = 5
	leastTiles   = 28
	mostTiles    = 64
	groupPanels  = 4 // output channel blocks of a group: a multiple, where threads need no more groups
	evenFrom     = 4 // blocks of tiles for each thread from which on their number need not be a multiple of the threads'
)

// Fits reports whether a convolution is one that the package computes: 3 by 3 taps side by side, stride 1, one group, a
// blocked source, not transposed.
func Fits(s conv.Spec) bool {
	one := func(x [2]int) bool { return x == [2]int{1, 1} || x == [2]int{} }
	return s.Kernel == [2]int{3, 3} && one(s.Stride) && one(s.Dilate) && s.Groups <= 1 && s.Source == conv.Blocked && !s.Transposed
}

// NewPlan plans a convolution by F(m) for a target, in chunks that so many threads share: there are no more of them than caches ask for, but as
// many as threads where that can be. The results do not depend on it. It returns a *conv.Error: conv.ErrShape for numbers that contradict each
// other, conv.ErrUnsupported for a Spec that does not fit.
func NewPlan(t isa.Target, m int, s conv.Spec, threads int) (*Plan, error) {
	if !Fits(s) {
		return nil, &conv.Error{Op: "plan", What: "a convolution that is not of 3 by 3 taps with stride 1", Cause: conv.ErrUnsupported}
	}
	direct, err := conv.NewConv(t, s) // checks every number
	if err != nil {
		return nil, err
	}
	p := &Plan{spec: s, m: m, target: t}
	if p.weights, err = NewWeights(t, m, s.OC, s.C); err != nil {
		return nil, err
	}
	_, _, p.spec.OH, p.spec.OW = direct.Shape()
	src, dst := channels(s.C)*s.H*s.W, channels(s.OC)*p.spec.OH*p.spec.OW
	for _, d := range []struct {
		distance *int
		compact  int
	}{{&p.spec.SrcImage, src}, {&p.spec.DstImage, dst}, {&p.spec.ResImage, dst}} {
		if *d.distance == 0 {
			*d.distance = d.compact
		}
	}
	p.lanes = s.OC - (channels(s.OC) - 16)
	p.sourceRow = channels(s.C)
	p.divide(ceilDiv(max(threads, 1), s.N))
	return p, p.plan()
}

// channels is c rounded up to whole blocks.
func channels(c int) int { return (c + 15) / 16 * 16 }

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// divide decides which tiles and output channels are computed together, where so many threads share an image. Tiles are divided first, as long
// as their weights are worth their way from memory; each group of channels transforms the source anew.
func (p *Plan) divide(threads int) {
	s := &p.spec
	points := p.weights.points()
	down, across := ceilDiv(s.OH, p.m), ceilDiv(s.OW, p.m)
	sixteenth := p.target.SecondCache() / 16
	aim := min(max(sourceShare*sixteenth/(4*points*p.sourceRow), leastTiles), mostTiles)
	rows, cols := ceilDiv(down, max(1, (aim+across/2)/across)), 1
	if across > aim {
		cols = ceilDiv(across, aim)
	}
	if cols == 1 && rows < evenFrom*threads {
		rows = min(ceilDiv(rows, threads)*threads, max(rows, down*across/leastTiles), down)
	}
	for i := range rows {
		for j := range cols {
			r, c := down*i/rows, across*j/cols
			p.blocks = append(p.blocks, block{r, c, down*(i+1)/rows - r, across*(j+1)/cols - c})
		}
	}
	tiles := 0
	for _, b := range p.blocks {
		tiles = max(tiles, b.tiles())
	}
	panels := gemm.Panels(s.OC)
	multiple := groupPanels
	wide := max(groupPanels, productShare*sixteenth/(4*points*tiles*16)/groupPanels*groupPanels)
	if most := ceilDiv(panels, ceilDiv(threads, len(p.blocks))); most < wide && ceilDiv(panels, wide)*len(p.blocks) < threads {
		wide = most
		multiple = min(multiple, wide)
	}
	for at, left := 0, ceilDiv(panels, wide); at < panels; left-- {
		n := ceilDiv(ceilDiv(panels-at, left), multiple) * multiple
		n = min(n, panels-at)
		p.groups = append(p.groups, group{at, n})
		at += n
	}
	// A line between the matrices of points keeps them from sharing sets of the caches.
	p.sourcePoint = tiles*p.sourceRow + 16
	p.productPoint = tiles*16*p.groups[0].count + 16
	p.source, p.product = points*p.sourcePoint, points*p.productPoint
	p.temp = points * 16
	p.zeros = make([]float32, 16*p.groups[0].count)
}

// plan plans the products, once for each size.
func (p *Plan) plan() error {
	type size struct{ rows, panels int }
	known := map[size]*gemm.Plan{}
	for _, b := range p.blocks {
		list := make([]*gemm.Plan, len(p.groups))
		for i, g := range p.groups {
			k := size{b.tiles(), g.count}
			if known[k] == nil {
				var err error
				known[k], err = gemm.NewPlan(p.target, gemm.Spec{M: k.rows, N: 16 * k.panels, K: p.spec.C, LDA: p.sourceRow, B: gemm.Packed})
				if err != nil {
					return shapeError("%v", err)
				}
			}
			list[i] = known[k]
		}
		p.products = append(p.products, list)
	}
	return nil
}

// Chunks returns the number of chunks that Run accepts, at least 1. Those of one block of tiles lie side by side, and share
// the transform of its source within a call of Run.
func (p *Plan) Chunks() int { return p.spec.N * len(p.blocks) * len(p.groups) }

// Workspace returns the floats of scratch memory that a call of Run needs.
func (p *Plan) Workspace() int { return p.source + p.product + p.temp }

// WeightFloats returns the length of the transformed weights in floats.
func (p *Plan) WeightFloats() int { return p.weights.Floats() }

// BiasFloats returns the length that a bias must have: OC rounded up to a multiple of 16, zero behind OC.
func (p *Plan) BiasFloats() int { return channels(p.spec.OC) }

// Shape returns the sizes of the destination: images, channels, height and width.
func (p *Plan) Shape() (n, oc, oh, ow int) { return p.spec.N, p.spec.OC, p.spec.OH, p.spec.OW }

// Cost estimates the time of all chunks as conv.Plan.Cost does, in cycles.
func (p *Plan) Cost() int64 { return int64(cost(p.target, p.m, p.spec)) }

// Costs of the model that Best decides by, in cycles of a processor that makes one multiply-add of 16 lanes in each: what a
// transform takes for 16 channels of a tile, how close to that rate products and direct convolutions come, and what the memory of a byte of weights
// counts: about what it takes to fetch it.
var (
	inputCycles  = map[int]float64{F2: 90, F4: 260}
	outputCycles = map[int]float64{F2: 70, F4: 220}
)

const (
	productRate     = 0.85
	directRate      = 0.95
	memoryCycles    = 0.3
	leastGain       = 0.9     // of the time of what has smaller weights
	leastChannels   = 16      // of source and result
	leastMultiplies = 200_000 // of 16 lanes, of the direct convolution
)

// fetchCosts are what it takes that weights come from memory in each run, in cycles.
type fetchCosts struct {
	direct      float64 // of a byte of a direct convolution's
	transformed float64 // of a byte of an F(m)'s
	apart       float64 // share of the lesser of an F(m)'s products and this way that the other does not hide
}

// fetchCostsOf returns those of a target. With AVX2, of which two multiply-adds are one of the model's, they were fitted to convolutions of 32 to 1024
// channels and maps of 4 to 112 pixels a side on an AMD Zen 2, with weights that no cache held: products read panels one behind the other and
// have the next ones fetched, a direct convolution of a small map waits for its weights.
func fetchCostsOf(t isa.Target) fetchCosts {
	if t.Set == isa.AVX2 {
		return fetchCosts{direct: 0.45, transformed: 0.23, apart: 0.35}
	}
	return fetchCosts{direct: 0.3, transformed: 0.3, apart: 1}
}

// cost models F(m) of a spec whose destination is known.
func cost(t isa.Target, m int, s conv.Spec) float64 {
	tiles := float64(s.N * ceilDiv(s.OH, m) * ceilDiv(s.OW, m))
	points := float64((m + 2) * (m + 2))
	in, out := float64(channels(s.C)/16), float64(channels(s.OC)/16)
	products := points * tiles * float64(s.C) * out / productRate
	weights := points * float64(s.C) * out * 64
	f := fetchCostsOf(t)
	fetch := weights * f.transformed
	return max(products, fetch) + f.apart*min(products, fetch) + weights*memoryCycles + tiles*(in*inputCycles[m]+out*outputCycles[m])
}

// Best returns the m of the F(m) that suits a convolution best on a target, by a model of products, transforms and the memory
// that weights take; 0 where the direct convolution does, which may be of bfloat16 or float16, or where there is no F(m) of it.
func Best(t isa.Target, s conv.Spec) int {
	if !Fits(s) || !assembled(t.Set) || s.C < leastChannels || s.OC < leastChannels {
		return 0
	}
	direct, err := conv.NewConv(t, s)
	if err != nil || direct.Cost() < leastMultiplies {
		return 0
	}
	_, _, s.OH, s.OW = direct.Shape()
	weights := 9 * 4 * float64(s.C) * float64(channels(s.OC))
	if s.Pairs != pairs.Float32 {
		weights /= 2
	}
	best, least := 0, float64(direct.Cost())/directRate+weights*(fetchCostsOf(t).direct+memoryCycles)
	for _, m := range []int{F2, F4} {
		if c := cost(t, m, s); c < leastGain*least {
			best, least = m, c
		}
	}
	return best
}

// limits returns the flags of an epilogue's limits.
func limits(e *conv.Epilogue) (flags int) {
	lower, upper := e.Limits()
	if lower {
		flags |= flagMax
	}
	if upper {
		flags |= flagMin
	}
	return flags
}
