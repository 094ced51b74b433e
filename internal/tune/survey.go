// Package tune measures who runs what fastest: single candidates of a choice by cost, each alone, and then whole programs by turns.
//
// A Survey listens while candidates are priced, and has a Task for each that could win; Measure runs tasks by turns with their
// rivals, and keeps what it finds in a cache of package measurements; a Choice says which whole was fastest, and has the times
// that it was chosen by. It and the Survey are partition.Times. What compiles and runs is the caller's, as a Subject.
package tune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/measurements"
)

const (
	// couldWin is how much longer than the least of its rivals the model may say that a candidate takes, if it is to be measured.
	couldWin = 4
	// slackNanos is how much longer it may take in any case: two conversions of something small.
	slackNanos = 2000
	// formatsEach bounds the signatures of one backend for one node that are measured: those that the model likes best.
	formatsEach = 6
)

// Host is what measurements depend on beside what is measured.
type Host struct {
	Backends  map[string]Implementation // by name in the list of backends
	Threads   int
	Processor string
}

// Implementation is what is behind a backend's name.
type Implementation struct {
	Options   string // that it was opened with
	Version   string
	Processor string // as the backend describes it
}

// Task is something to measure: a node on a backend with a signature, or a hop of a conversion.
type Task struct {
	Key     measurements.Key
	Graph   *graph.Graph // of the node alone, nil for a hop
	Backend string
	Sig     graph.Signature
	Hop     *convert.Converter // nil for a node
	Type    graph.Type         // of what the hop converts, static

	rivals   string  // equal for tasks that do the same work
	modelled float64 // nanoseconds
	weight   float64 // nanoseconds, times how often it is in the model
	wanted   bool
	result   measurements.Entry
	measured bool
}

// String names the task for people.
func (t *Task) String() string {
	op, _, _ := strings.Cut(t.Key.Operator, " ")
	return op + " on " + t.Backend
}

// Survey is a partition.Times that knows nothing, and remembers what it was asked about.
type Survey struct {
	host   Host
	at     graph.Bindings
	tasks  map[string]*Task // by digest
	order  []*Task
	seen   []occurrence
	least  map[string]float64 // by name of a node: what it takes by itself, at least
	last   *graph.Node
	about  measurements.Key // of last
	known  bool             // about is all that matters
	single *graph.Graph     // of last
}

// occurrence is a candidate in the model.
type occurrence struct {
	task     *Task
	nodes    []string
	modelled float64
}

// NewSurvey returns a Survey for symbols of these values.
func NewSurvey(h Host, at graph.Bindings) *Survey {
	return &Survey{host: h, at: at, tasks: map[string]*Task{}, least: map[string]float64{}}
}

// key completes a key with what the host is.
func (h *Host) key(k measurements.Key, backend, signature string) measurements.Key {
	b := h.Backends[backend]
	k.Signature, k.Backend, k.Library = signature, backend+" "+b.Options, b.Version
	k.Threads, k.Processor = h.Threads, h.Processor+" "+b.Processor
	return k
}

// formats writes a signature without variables.
func formats(n *graph.Node, sig *graph.Signature) string {
	var s strings.Builder
	s.WriteString(sig.Name)
	for i, p := range sig.Inputs {
		if i < len(n.Inputs) && n.Inputs[i] != nil {
			s.WriteString(" " + p.Format.String())
		}
	}
	s.WriteString(" ->")
	for _, p := range sig.Outputs {
		s.WriteString(" " + p.Format.String())
	}
	return s.String()
}

// Node implements partition.Times.
func (s *Survey) Node(n *graph.Node, backend string, sig *graph.Signature, modelled float64) float64 {
	if n != s.last {
		s.last, s.about, s.single = n, measurements.Key{}, nil
		s.known = describe(n, s.at, &s.about)
		if s.known {
			var err error
			s.single, err = alone(n, s.at)
			s.known = err == nil
		}
	}
	if !s.known {
		return 0
	}
	k := s.host.key(s.about, backend, formats(n, sig))
	d := k.Digest()
	t := s.tasks[d]
	if t == nil {
		t = &Task{Key: k, Graph: s.single, Backend: backend, Sig: *sig, modelled: modelled,
			rivals: strings.Join([]string{k.Operator, k.Attributes, k.Shapes, k.Types}, "\n")}
		s.tasks[d] = t
		s.order = append(s.order, t)
	}
	names := n.Provenance()
	s.seen = append(s.seen, occurrence{t, names, modelled})
	t.weight += modelled
	if len(names) == 1 && modelled > 0 {
		if least, ok := s.least[names[0]]; !ok || modelled < least {
			s.least[names[0]] = modelled
		}
	}
	return 0
}

// hopKey is the key of a hop; false where the shape is not known.
func hopKey(h *Host, v *graph.Value, hop *convert.Converter, at graph.Bindings) (k measurements.Key, dims []int, ok bool) {
	if !v.Type.IsTensor() || !v.Type.Shape.Known() {
		return k, nil, false
	}
	dims, err := v.Type.Shape.Eval(at, nil)
	if err != nil {
		return k, nil, false
	}
	k = measurements.Key{Operator: "Convert " + hop.Name, Shapes: fmt.Sprint(dims), Types: v.Type.DType.Name(),
		Signature: hop.From.String() + " -> " + hop.To.String(), Backend: "convert", Threads: h.Threads, Processor: h.Processor}
	var all []string
	for name, b := range h.Backends { // whoever's converter it is
		all = append(all, name+" "+b.Version)
	}
	slices.Sort(all)
	k.Library = strings.Join(all, ", ")
	return k, dims, true
}

// Conversion implements partition.Times.
func (s *Survey) Conversion(v *graph.Value, hop *convert.Converter) float64 {
	k, dims, ok := hopKey(&s.host, v, hop, s.at)
	if !ok {
		return 0
	}
	d := k.Digest()
	t := s.tasks[d]
	if t == nil {
		shape := graph.ShapeOf(dims...)
		t = &Task{Key: k, Backend: "convert", Hop: hop, Type: graph.TensorType(v.Type.DType, shape), wanted: true, rivals: d}
		elements := 1.0
		for _, n := range dims {
			elements *= float64(n)
		}
		t.modelled = hop.Cost.Of(int64(elements) * int64(v.Type.DType.Size()))
		s.tasks[d] = t
		s.order = append(s.order, t)
	}
	t.weight += t.modelled
	return 0
}

// Tasks returns what could win, rivals one behind the other, and what matters most first.
func (s *Survey) Tasks() []*Task {
	s.want()
	return sorted(s.order)
}

// want marks what could win.
func (s *Survey) want() {
	perNode := map[string]int{} // signatures that are wanted, by node and backend
	seen := slices.Clone(s.seen)
	slices.SortStableFunc(seen, func(a, b occurrence) int { return cmp.Compare(a.modelled, b.modelled) })
	for _, o := range seen {
		bar := 0.0
		for _, name := range o.nodes {
			bar += s.least[name]
		}
		if bar > 0 && o.modelled > couldWin*bar+slackNanos {
			continue
		}
		at := strings.Join(o.nodes, "\n") + "\n\n" + o.task.Backend
		if perNode[at]++; perNode[at] <= formatsEach {
			o.task.wanted = true
		}
	}
}

// sorted returns those that could win in the order of Tasks.
func sorted(tasks []*Task) []*Task {
	heaviest := map[string]float64{}
	var out []*Task
	for _, t := range tasks {
		if t.wanted {
			heaviest[t.rivals] = max(heaviest[t.rivals], t.weight)
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b *Task) int {
		return cmp.Or(-cmp.Compare(heaviest[a.rivals], heaviest[b.rivals]), cmp.Compare(a.rivals, b.rivals))
	})
	return out
}

// Recall takes what is in a cache for what it is, and returns what is not.
func Recall(c *measurements.Cache, tasks []*Task) (missing []*Task) {
	for _, t := range tasks {
		if t.result, t.measured = c.Get(t.Key); !t.measured {
			missing = append(missing, t)
		}
	}
	return missing
}

// Times returns the times of all candidates: measured, or else modelled, in the measure in which the model was wrong about others
// of the backend, of the same operator where there are some.
func (s *Survey) Times() map[string]float64 {
	out := map[string]float64{}
	s.times(out)
	return out
}

// times adds Times.
func (s *Survey) times(out map[string]float64) {
	ratios := map[string][]float64{}
	for _, t := range s.order {
		if t.measured && t.modelled > 0 {
			r := t.result.Nanos / t.modelled
			ratios[t.Backend] = append(ratios[t.Backend], r)
			ratios[t.String()] = append(ratios[t.String()], r)
		}
	}
	for _, t := range s.order {
		d := t.Key.Digest()
		switch {
		case t.measured:
			out[short(d)] = t.result.Nanos
		case t.modelled > 0:
			r := ratios[t.String()]
			if len(r) == 0 {
				r = ratios[t.Backend]
			}
			if len(r) > 0 {
				slices.Sort(r)
				out[short(d)] = t.modelled * r[len(r)/2]
			}
		}
	}
}

// short is what a list of times has of a digest.
func short(digest string) string { return digest[:20] }
