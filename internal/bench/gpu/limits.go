package main

import (
	"fmt"
	"slices"

	"github.com/carve-dev/carve/internal/bench/paired"
)

// ceilings are what the device was measured to do at most: bytes a second, and operations a second by precision.
type ceilings map[string]float64

// ceilingsOf reads them from rows: a copy; multiply-adds without memory for float32, and for other precisions the fastest of the largest
// products, whoever does it.
func ceilingsOf(rows []*row) ceilings {
	c, largest := ceilings{}, map[string]float64{}
	for _, r := range rows {
		if r.Times == nil {
			continue
		}
		t := r.Times
		switch {
		case r.Part == ceilingPart && r.Name == copying:
			c[copying] = t.Bytes / r.median()
		case r.Part == ceilingPart && r.Name == multiplyAdds:
			c["f32"] = t.Operations / r.median()
		case r.Part == productPart && r.Precision != "f32" && t.Operations >= largest[r.Precision]:
			rate := t.Operations / r.median()
			if t.Operations > largest[r.Precision] {
				largest[r.Precision], c[r.Precision] = t.Operations, rate
			}
			c[r.Precision] = max(c[r.Precision], rate)
		}
	}
	return c
}

// share sets which part of the nearer ceiling a kernel reaches, where there is one.
func (c ceilings) share(r *row) {
	r.Share, r.Of = nil, ""
	if r.Times == nil || r.Part == ceilingPart {
		return
	}
	least := 0.0
	if rate := c[copying]; rate > 0 && r.Times.Bytes > 0 {
		least, r.Of = r.Times.Bytes/rate, copying
	}
	if rate := c[r.Precision]; rate > 0 && r.Times.Operations/rate > least {
		least, r.Of = r.Times.Operations/rate, r.Precision
	}
	if least == 0 {
		return
	}
	bound := slices.Repeat([]float64{least}, len(r.Times.Seconds))
	ratio := paired.Of(bound, r.Times.Seconds)
	r.Share = &ratio
}

// Verdicts on limits.
const (
	met        = "met"
	broken     = "broken"    // with the whole interval
	undecided  = "undecided" // the interval has the limit in it
	unmeasured = "not measured"
)

// judged is a limit, and how it fares.
type judged struct {
	What    string   `json:"what"`
	Verdict string   `json:"verdict"`
	Rows    int      `json:"rows"` // that were judged
	Met     int      `json:"met"`
	Worst   string   `json:"worst,omitempty"`
	Broken  []string `json:"broken,omitempty"` // rows that break it, or that could not be measured
}

// limit is something that rows are held to.
type limit struct {
	what string
	rows func(r *row) bool
	// holds returns the verdict on a row that was measured, what it is worth, the larger the worse, and that as text.
	holds func(r *row) (verdict string, worth float64, text string)
}

// atLeast judges shares of ceilings.
func atLeast(least float64) func(r *row) (string, float64, string) {
	return func(r *row) (string, float64, string) {
		if r.Share == nil {
			return unmeasured, 0, "no ceiling"
		}
		text := fmt.Sprintf("%v of %s", *r.Share, r.Of)
		switch {
		case r.Share.Median >= least:
			return met, -r.Share.Median, text
		case r.Share.High >= least:
			return undecided, -r.Share.Median, text
		}
		return broken, -r.Share.Median, text
	}
}

// beside is the rival that limits are about, and others go by the same rule for information.
const beside = "torch.compile"

// allowed is how far a network's results may lie from float64, by precision, as ‖result − float64‖ / ‖float64‖: four times what the zoo's
// show on processors.
var allowed = map[string]float64{"f32": 2e-5, "tf32": 4e-3, "f16": 4e-3, "bf16": 3e-2}

func limits() []limit {
	carves := func(part string) func(r *row) bool {
		return func(r *row) bool { return r.Part == part && r.Side == "carve" }
	}
	onCUDA := func(r *row) bool { return r.Part == modelPart && r.Side == "cuda" }
	return []limit{
		{"element-wise operators, norms and softmax: 0.85 of copy", carves(rowPart), atLeast(0.85)},
		{"products of 1024 rows or more: 0.80 of the ceiling", func(r *row) bool { return carves(productPart)(r) && r.Rows >= 1024 }, atLeast(0.80)},
		{"convolutions: 0.70 of the ceiling", carves(convolutionPart), atLeast(0.70)},
		{"networks: one graph launch a run, and no kernel beside", onCUDA, oneGraph},
		{"networks: agreement with float64", func(r *row) bool { return r.Part == modelPart && isCarve(r.Side) }, agrees},
		{"networks: 1.0 of " + beside, onCUDA, besideRival},
	}
}

func isCarve(side string) bool { return side == "cuda" || side == ownKernels || side == "opencl" }

func oneGraph(r *row) (string, float64, string) {
	if r.Ready == nil || r.Ready.Calls == nil {
		return unmeasured, 0, "calls were not counted"
	}
	graphs, launches := made(r.Ready.Calls, "graphs"), made(r.Ready.Calls, "launches")
	text := summed(r.Ready.Calls)
	if graphs == 1 && launches == 0 {
		return met, 1, text
	}
	return broken, float64(graphs + launches), text
}

func agrees(r *row) (string, float64, string) {
	if r.Agreement == nil {
		return unmeasured, 0, "no reference values"
	}
	worth := r.Agreement.Relative / allowed[r.Precision]
	text := fmt.Sprintf("off %.1e, %.1e allowed", r.Agreement.Relative, allowed[r.Precision])
	if worth <= 1 {
		return met, worth, text
	}
	return broken, worth, text
}

func besideRival(r *row) (string, float64, string) {
	x, ok := r.Ratio[beside]
	if !ok {
		return unmeasured, 0, "no rival"
	}
	switch {
	case x.Median <= 1:
		return met, x.Median, x.String()
	case x.Low <= 1:
		return undecided, x.Median, x.String()
	}
	return broken, x.Median, x.String()
}

// judge holds rows to all limits. Where a network was measured more than once, the last time counts.
func judge(rows []*row) []judged {
	var list []judged
	for _, l := range limits() {
		list = append(list, l.judge(latest(rows)))
	}
	return list
}

// latest returns rows without those that others follow of the same measurement, but for one that failed behind one that did not.
func latest(rows []*row) []*row {
	at := map[string]int{}
	var list []*row
	for _, r := range rows {
		key := r.head()
		i, ok := at[key]
		switch {
		case !ok:
			at[key] = len(list)
			list = append(list, r)
		case r.Fault == nil:
			list[i] = r
		}
	}
	return list
}

func (l *limit) judge(rows []*row) judged {
	j := judged{What: l.what, Verdict: unmeasured}
	worst, open := 0.0, 0
	for _, r := range rows {
		if !l.rows(r) {
			continue
		}
		if r.Fault != nil {
			if r.Fault.Kind != absent && r.Fault.Kind != left {
				j.Broken = append(j.Broken, r.String())
			}
			continue
		}
		verdict, worth, text := l.holds(r)
		if verdict == unmeasured {
			continue
		}
		if j.Rows++; j.Worst == "" || worth > worst {
			worst, j.Worst = worth, r.head()+" "+text
		}
		switch verdict {
		case met:
			j.Met++
		case undecided:
			open++
		case broken:
			j.Broken = append(j.Broken, r.head()+" "+text)
		}
	}
	switch {
	case len(j.Broken) > 0:
		j.Verdict = broken
	case open > 0:
		j.Verdict = undecided
	case j.Rows > 0:
		j.Verdict = met
	}
	return j
}
