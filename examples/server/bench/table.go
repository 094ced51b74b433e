package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/internal/bench/paired"
)

// table is what a subject's ways have shown.
type table struct {
	x *subject
	*stage
	callers int
	whole   bool // all ways are there; else verdicts are of those that are
}

// verdict is a number beside its limit.
type verdict struct {
	what   string
	number paired.Ratio // of the rounds, with its interval where there are several
	unit   string
	most   float64 // or the least, where it is negative
	echo   float64 // what the same client measures with an echo of the same library's; 0 where that is not compared
}

// once is a number that was measured once.
func once(number float64) paired.Ratio {
	return paired.Ratio{Median: number, Low: number, High: number}
}

// percent returns a ratio as what it is in percent.
func percent(r paired.Ratio) paired.Ratio {
	return paired.Ratio{Median: 100 * r.Median, Low: 100 * r.Low, High: 100 * r.High}
}

// String says whether the limit is met: it is broken where the whole interval is, and undecided where a part of it is.
func (v verdict) String() string {
	word, limit, within := "at most", v.most, func(x float64) bool { return x <= v.most }
	if v.most < 0 {
		word, limit, within = "at least", -v.most, func(x float64) bool { return x >= -v.most }
	}
	n, answer := v.number, "undecided"
	switch low, high := within(n.Low), within(n.High); {
	case low && high:
		answer = "met"
	case !low && !high:
		answer = "NOT met"
	}
	if n.Low != n.High {
		answer += fmt.Sprintf(" (%.1f to %.1f)", n.Low, n.High)
	}
	if v.echo > 0 {
		answer += fmt.Sprintf("; an echo %.1f, the server's own %.1f", v.echo, n.Median-v.echo)
	}
	return fmt.Sprintf("%-62s %8.1f %-2s %s %g: %s", v.what, n.Median, v.unit, word, limit, answer)
}

// print prints all numbers, and those that have limits beside these.
func (t *table) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d bytes a request\n\n%-24s %18s   %9s %2d %-41s   %s\n", t.x.name, t.sent, "times in µs", "1 caller", "", t.callers, "callers", "80 % of that")
	fmt.Fprintf(out, "%-24s %8s %9s   %8s %9s %9s %8s %10s %5s   %8s %9s %6s %5s %9s\n", "", "p50", "p99", "p50", "p99", "req/s", "of bare", "processor", "idle", "p50", "p99", "kept", "busy", "late p99")
	bare := t.ways[0]
	for _, w := range t.ways {
		fmt.Fprintf(out, "%-24s %8.1f %9.1f   %8.1f %9.1f %9.0f %7.0f%% %10.1f %4.0f%%   %8.1f %9.1f %5.0f%% %4.0f%% %9.1f\n", w.name, micros(at(w.alone, 50)), micros(at(w.alone, 99)),
			micros(at(w.many, 50)), micros(at(w.many, 99)), median(w.rate), 100*paired.Of(w.rate, bare.rate).Median, median(w.processor), 100*w.idle(),
			micros(at(w.steady, 50)), micros(at(w.steady, 99)), 100*median(w.kept), 100*median(w.busy), micros(at(w.late, 99)))
	}
	fmt.Fprintln(out)
	for _, v := range t.x.judges(t) {
		fmt.Fprintln(out, v)
	}
	fmt.Fprintln(out)
	if t.whole {
		return
	}
	for _, w := range t.ways[min(2, len(t.ways)):] {
		of := t.ways[1]
		fmt.Fprintf(out, "%s, of %s: p50 of one caller %v, requests a second %v, processor %v\n", w.name, of.name, paired.Of(w.p50, of.p50), paired.Of(w.rate, of.rate), paired.Of(w.processor, of.processor))
	}
}

// median returns the median of a list that it leaves as it is, 0 of none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return paired.Median(slices.Clone(list))
}

// idle returns which part of the processors' time many callers leave: to others, where there are any.
func (w *way) idle() float64 {
	return 1 - median(w.rate)*median(w.processor)/1e6/float64(listen.PrepareProcess().Runs)
}

// added returns how much longer a request takes than a run, in microseconds.
func (t *table) added(w *way) paired.Ratio {
	more := make([]float64, len(w.p50))
	for i := range more {
		more[i] = w.p50[i] - t.ways[0].p50[i]
	}
	return paired.Rounds(more)
}

// addedOf is added in round trips.
func (t *table) addedOf(w, trip *way) paired.Ratio {
	more := make([]float64, len(w.p50))
	for i := range more {
		more[i] = (w.p50[i] - t.ways[0].p50[i]) / trip.p50[i]
	}
	return paired.Rounds(more)
}

// among returns those of ways that have been measured.
func (t *table) among(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return t.way(name) == nil })
}

// served are the ways to ask the server.
var served = []string{plainBinary, clientBinary, gRPC, sharedGRPC, clientGRPC}

// echo returns a number of the echo that a way is compared with, the median of its rounds; 0 where there is none.
func (t *table) echo(name string, numbers func(*way) []float64) float64 {
	if e := t.way(echoes[name]); e != nil {
		return median(numbers(e))
	}
	return 0
}

func p50s(w *way) []float64 { return w.p50 }

func tails(w *way) []float64 { return w.tails }

// tail is the judgement of latencies at 80 %. Where a loop that only computes misses the limit on a machine, or a bare echo, so will the
// server: its own share is what it has more than the echo of the same library.
func (t *table) tail() (list []verdict) {
	for _, name := range t.among(append([]string{computing, loopback, bareGRPC}, served...)...) {
		list = append(list, verdict{what: name + ": p99 at 80 %, of p50", number: paired.Rounds(slices.Clone(t.way(name).tails)), unit: "×", most: 3, echo: t.echo(name, tails)})
	}
	for _, name := range t.among(served...) {
		of := echoes[name]
		if t.way(of) == nil {
			continue
		}
		list = append(list, verdict{what: name + ": the same, of that of " + of, number: percent(paired.Of(t.way(name).tails, t.way(of).tails)), unit: "%", most: 100})
	}
	return list
}

// small judges inputs below 4 kB.
func (t *table) small() (list []verdict) {
	for _, name := range t.among(append([]string{plainGRPC}, served...)...) {
		list = append(list, verdict{what: name + ": added to a run at p50", number: t.added(t.way(name)), unit: "µs", most: 80, echo: t.echo(name, p50s)})
	}
	return append(list, t.tail()...)
}

// rate judges how many requests a second a way answers, in percent of another's. An echo with the runs of a bare loop behind it is the most
// that the library and the client on the same processors leave room for.
func (t *table) rate(name, of string, most float64) verdict {
	v := verdict{what: name + ": requests a second, of " + of, number: percent(paired.Of(t.way(name).rate, t.way(of).rate)), unit: "%", most: most}
	if w := t.way(loops[name]); w != nil {
		v.echo = 100 * paired.Of(w.rate, t.way(of).rate).Median
	}
	return v
}

// batched judges runs of several requests.
func (t *table) batched() []verdict {
	var list []verdict
	for _, name := range t.among(queued) {
		list = append(list, t.rate(name, bareLoop, -90))
	}
	if t.way(bareGRPC) != nil {
		for _, name := range t.among(gRPC, sharedGRPC) {
			list = append(list, t.rate(name, bareGRPC, -70))
		}
	}
	return append(list, t.tail()...)
}

// large judges inputs of hundreds of kilobytes.
func (t *table) large() (list []verdict) {
	trip := t.way(loopback) // or the other, which is quicker as reads happen to fall between writes
	if other := t.way(plainEcho); other != nil && (trip == nil || median(other.p50) < median(trip.p50)) {
		trip = other
	}
	for _, name := range t.among(served...) {
		if trip != nil {
			list = append(list, verdict{what: name + ": added to a run at p50, of a round trip", number: t.addedOf(t.way(name), trip), unit: "×", most: 3, echo: t.echo(name, p50s) / median(trip.p50)})
		}
		if t.x.ceiling {
			list = append(list, t.rate(name, bareLoop, -90))
		}
	}
	return append(list, t.tail()...)
}
