package main

import (
	"math"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/cost"
)

// sameLaw is how many samples a signature needs for a law of its own.
const sameLaw = 4

// fit makes the table of one backend and set from its samples: of one thread from those with cold caches, where there are some,
// and how threads share work from those with warm ones. Laws are least squares of the logarithm of modelled over measured time,
// bounded for each sample, of coefficients of at least 0.
func fit(samples []sample, launch, cache float64) *backend.Efficiency {
	e := &backend.Efficiency{Launch: launch, Cache: cache, Laws: map[string]backend.Law{}}
	byClass := map[string][]sample{}
	for _, s := range fitted(samples) {
		if s.Threads == 1 {
			s.Nanos = max(s.Nanos-launch, s.Nanos/5)
			byClass[s.Work.Class] = append(byClass[s.Work.Class], s)
		}
	}
	floor := leastFixed(byClass)
	for class, list := range byClass {
		l := law(list, cache, floor, mostFixed)
		if class == "view" { // where it gives an output of the model it is copied, elsewhere not
			l = backend.Law{Fixed: l.Fixed}
		}
		families := map[string][]sample{}
		for _, s := range list {
			if f := family(s.Signature); f != "" {
				families[f] = append(families[f], s)
			}
		}
		for f, some := range families {
			if len(families) > 1 && len(some) >= sameLaw {
				if l.Variants == nil {
					l.Variants = map[string]backend.Law{}
				}
				most := float64(mostFixed)
				if leastBytes(some) > small*leastBytes(list) {
					most = l.Fixed
				}
				l.Variants[f] = law(some, cache, floor, most)
			}
		}
		e.Laws[class] = l
	}
	fitOther(e, byClass)
	fitThreads(e, samples)
	return e
}

// fitted are the samples that laws are fitted to.
func fitted(samples []sample) []sample {
	if !slices.ContainsFunc(samples, func(s sample) bool { return s.Cold }) {
		return samples
	}
	var list []sample
	for _, s := range samples {
		if s.Cold {
			list = append(list, s)
		}
	}
	return list
}

// leastFixed is the least that a node takes which does anything: half of what the cheapest of a class does, of the median
// class.
func leastFixed(byClass map[string][]sample) float64 {
	var list []float64
	for class, samples := range byClass {
		if class == "view" || strings.HasSuffix(class, "-joined") {
			continue
		}
		list = append(list, leastOf(samples))
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return min(list[len(list)/2]/2, mostFixed)
}

// leastOf is the least time of samples.
func leastOf(list []sample) float64 {
	least := math.Inf(1)
	for _, s := range list {
		least = min(least, s.Nanos)
	}
	return least
}

// leastBytes is the least that one of some samples reads and writes.
func leastBytes(list []sample) float64 {
	least := math.Inf(1)
	for _, s := range list {
		least = min(least, s.Work.Bytes)
	}
	return least
}

// family is what a signature's name begins with, up to what names an instruction set: "jit:" of "jit:avx2".
func family(signature string) string {
	if k := strings.LastIndex(signature, ":"); k >= 0 {
		return signature[:k+1]
	}
	return signature
}

// fitOther gives operators without a class the law of elementwise operators on other elements than float32, which are as
// plain everywhere.
func fitOther(e *backend.Efficiency, byClass map[string][]sample) {
	for _, class := range []string{"pow-other", "add-other", "pow", "exp", "add"} {
		if len(byClass[class]) > 0 {
			l := e.Laws[class]
			l.Variants = nil
			e.Laws[cost.Other] = l
			return
		}
	}
}

// coefficients are those of a law that are fitted together.
func coefficients(l *backend.Law) []*float64 {
	return []*float64{&l.Fixed, &l.Work, &l.Bytes, &l.Far, &l.Rows, &l.Items}
}

// arithmetic reports whether a class is about multiplications: its time grows with its operations.
func arithmetic(class string) bool {
	return strings.HasPrefix(class, "conv") || strings.HasPrefix(class, "product") || class == "recurrent" || class == "attention"
}

// mostFixed bounds the fixed part of a node's time: where all samples are large, nothing says what a small one takes. Of a signature whose
// least sample moves more than so many times as many bytes as the class's, the class does: small.
const (
	mostFixed = 6000
	small     = 4
)

// inOneRow reports whether operators of a class go through their elements as one row, however these lie.
func inOneRow(class string) bool {
	switch class {
	case "add", "add-other", "hard", "exp", "tanh", "erf", "pow", "pow-other", "sin", "quantize", "cast", "cast-small", "compare", "scale", "add-int", "function-int":
		return true
	}
	return false
}

// law fits one law: from each coefficient alone, and from operations or bytes with a little of everything, the best of what is
// found. The fixed part exceeds neither most nor the time of the smallest node.
func law(list []sample, cache, floor, most float64) backend.Law {
	rows := make([][]float64, len(list))
	for i, s := range list {
		w := &s.Work
		rows[i] = []float64{1, w.Work, w.Bytes, max(0, w.Bytes-cache), w.Rows, w.Items}
	}
	f := fitting{rows: rows, list: list, least: make([]float64, 6), most: make([]float64, 6)}
	for k := range f.most {
		f.most[k] = math.Inf(1)
	}
	f.most[0] = min(most, leastOf(list))
	if inOneRow(list[0].Work.Class) || len(list) < sameLaw { // few samples tell rows and operations not apart
		f.most[4] = 0
	}
	if class := list[0].Work.Class; class != "view" && !strings.HasSuffix(class, "-joined") {
		f.least[0] = min(floor, f.most[0]/2)
	}
	if arithmetic(list[0].Work.Class) {
		f.least[1] = 0.4 * f.alone(1)
		f.most[5], f.most[3] = 0, 0
	}
	best, loss := []float64(nil), math.Inf(1)
	for k := range 6 {
		x := slices.Clone(f.least)
		if k > 0 && f.most[k] > 0 {
			x[k] = f.alone(k)
		}
		x[0] = max(f.least[0], f.most[0]/2)
		x = f.descend(x)
		if y := f.loss(x); y < loss {
			best, loss = x, y
		}
	}
	var l backend.Law
	for i, p := range coefficients(&l) {
		*p = best[i]
	}
	return l
}

// fitting is a search for coefficients.
type fitting struct {
	rows        [][]float64 // of each sample: what each coefficient is multiplied by
	list        []sample
	least, most []float64 // bounds of the coefficients
}

// alone returns the largest value that a coefficient may have so that it explains no more than any sample.
func (f *fitting) alone(k int) float64 {
	x := math.Inf(1)
	for i, r := range f.rows {
		if r[k] > 0 {
			x = min(x, f.list[i].Nanos/r[k])
		}
	}
	if math.IsInf(x, 1) {
		return 0
	}
	return x
}

// outlying bounds what one sample adds to the loss, in the manner of Geman and McClure: one that other load disturbed in all
// rounds bends no law.
const outlying = 2

// loss is the sum of squared logarithms of modelled over measured time, bounded for each sample, and a little for each coefficient: fewer are better
// where more explain nothing.
func (f *fitting) loss(x []float64) float64 {
	sum := 0.0
	for i, r := range f.rows {
		t := 0.0
		for k, c := range x {
			t += c * r[k]
		}
		d := math.Log(max(t, 1) / f.list[i].Nanos)
		sum += d * d / (1 + d*d/outlying)
	}
	for _, c := range x {
		if c > 0 {
			sum += 0.02
		}
	}
	return sum
}

// descend minimises the loss by changing one coefficient at a time: by factors that become smaller, from zero to a part of
// what explains a sample alone, and to the least.
func (f *fitting) descend(x []float64) []float64 {
	best := f.loss(x)
	for _, step := range []float64{4, 2, 1.4, 1.15, 1.05, 1.02, 1.3, 1.1, 1.03, 1.01} {
		for improved := true; improved; {
			improved = false
			for k := range x {
				was, at := x[k], x[k]
				for _, y := range f.tries(k, was, step) {
					x[k] = min(max(y, f.least[k]), f.most[k])
					if s := f.loss(x); s < best-1e-9 {
						best, at, improved = s, x[k], true
					}
				}
				x[k] = at
			}
		}
	}
	return x
}

// tries are the values that a coefficient may change to.
func (f *fitting) tries(k int, was, step float64) []float64 {
	list := []float64{0, was * step, was / step}
	if was > 0 {
		return list
	}
	for i, r := range f.rows {
		if r[k] > 0 {
			for _, part := range []float64{0.1, 0.4, 0.9} {
				list = append(list, part*f.list[i].Nanos/r[k])
			}
		}
	}
	return list
}

// fitThreads finds how much of the time further threads do not shorten, by class, and what sharing a node costs.
func fitThreads(e *backend.Efficiency, samples []sample) {
	alone := map[string]float64{}
	var shared []sample
	for _, s := range samples {
		if s.Threads == 1 && !s.Cold {
			alone[s.Task] = max(s.Nanos-e.Launch, s.Nanos/5)
		}
	}
	for _, s := range samples {
		if s.Threads > 1 && !s.Cold && alone[s.Task] > 0 {
			s.Nanos = max(s.Nanos-e.Launch, s.Nanos/5)
			shared = append(shared, s)
		}
	}
	if len(shared) == 0 {
		assumeThreads(e)
		return
	}
	classes := map[string][]sample{}
	for _, s := range shared {
		classes[s.Work.Class] = append(classes[s.Work.Class], s)
	}
	least := math.Inf(1)
	var serial map[string]float64
	var sync float64
	for _, y := range []float64{0, 300, 600, 1000, 1500, 2000, 3000, 4000, 6000, 10000} {
		sum, parts := 0.0, map[string]float64{}
		for class, list := range classes {
			low, fixed := math.Inf(1), e.Laws[class].Fixed
			for _, s := range list {
				fixed = min(fixed, alone[s.Task]) // that of cold caches may be more
			}
			for part := 0.0; part <= 1; part += 0.05 {
				d := 0.0
				for _, s := range list {
					rest := alone[s.Task] - fixed
					t := fixed + min(rest, y+rest*(part+(1-part)/float64(s.Threads)))
					d += math.Pow(math.Log(max(t, 1)/s.Nanos), 2)
				}
				if d < low {
					low, parts[class] = d, part
				}
			}
			sum += low
		}
		if sum < least {
			least, serial, sync = sum, parts, y
		}
	}
	e.Sync = sync
	for class, l := range e.Laws {
		if part, known := serial[class]; known {
			l.Serial = part
			for f, v := range l.Variants {
				v.Serial = part
				l.Variants[f] = v
			}
		} else {
			l.Serial = 1
		}
		e.Laws[class] = l
	}
}

// Where no run had several threads: what a handing over takes within a processor, and a tenth that is not shared.
const (
	assumedSync   = 2000
	assumedSerial = 0.1
)

// assumeThreads fills in what was not measured.
func assumeThreads(e *backend.Efficiency) {
	e.Sync = assumedSync
	for class, l := range e.Laws {
		l.Serial = assumedSerial
		for f, v := range l.Variants {
			v.Serial = assumedSerial
			l.Variants[f] = v
		}
		e.Laws[class] = l
	}
}

// deviation is how far modelled times are from measured ones: the geometric mean and the largest of the ratio, whichever is
// above 1.
type deviation struct {
	count       int
	mean, worst float64
	at          sample
}

// deviations returns them by class, and of all as "".
func deviations(e *backend.Efficiency, samples []sample) map[string]deviation {
	m := map[string]deviation{}
	for _, s := range fitted(samples) {
		if s.Work.Class == "view" {
			continue
		}
		modelled := cost.Nanoseconds(e, &s.Work, s.Signature, s.Threads) + e.Launch
		x := math.Abs(math.Log(modelled / s.Nanos))
		for _, class := range []string{s.Work.Class, ""} {
			d := m[class]
			d.count++
			d.mean += x
			if x > d.worst {
				d.worst, d.at = x, s
			}
			m[class] = d
		}
	}
	for class, d := range m {
		d.mean, d.worst = math.Exp(d.mean/float64(d.count)), math.Exp(d.worst)
		m[class] = d
	}
	return m
}

// sorted returns the samples of one table.
func sorted(samples []sample, c contestant) []sample {
	var list []sample
	for _, s := range samples {
		if s.Backend == c.Name && s.Set == c.Set {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b sample) int { return strings.Compare(a.Task, b.Task) })
	return list
}
