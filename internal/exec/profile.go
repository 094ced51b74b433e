package exec

import "time"

// Span is one sub-step of a run.
type Span struct {
	Name    string   // of the node, or what is converted
	Op      string   // operator, pattern, or "Convert"
	Backend string   // "host" for the host scheduler
	Nodes   []string // of the model
	Group   int      // id of the group, or of the host scheduler's node; -1 for a conversion between groups
	Device  string   // whose queue it was on; "" for the host
	Stream  int      // of the device
	Start   time.Duration
	Time    time.Duration
	FLOPs   float64 // 0 where not known
}

// profiler collects spans of one run.
type profiler struct {
	zero  time.Time
	spans []Span
	last  time.Time
}

// Profile has the session's runs timed until stop, which returns what they spent where, in the order of time.
func (s *Session) Profile() (stop func() []Span) {
	p := &profiler{zero: time.Now()}
	s.profile = p
	return func() []Span {
		s.profile = nil
		return p.spans
	}
}

// begin starts the timing of a step; a group with labelled sub-steps reports them one by one.
func (p *profiler) begin(f *frame, i int) time.Time {
	now := time.Now()
	p.last = now
	st := &f.s.block.Steps[i]
	if st.Kind == StepGroup {
		f.args[i].Trace = func(sub int) {
			t := time.Now()
			if r := f.requirements(i); sub < len(r.Labels) {
				l := &r.Labels[sub]
				p.add(f, i, Span{Name: l.Name, Op: l.Op, Backend: st.Node.Backend, Nodes: l.Origins,
					Start: p.last.Sub(p.zero), Time: t.Sub(p.last), FLOPs: l.FLOPs})
			}
			p.last = t
		}
	}
	return now
}

func (p *profiler) end(f *frame, i int, start time.Time) {
	st := &f.s.block.Steps[i]
	if st.Kind == StepGroup {
		f.args[i].Trace = nil
		if len(f.requirements(i).Labels) > 0 {
			return
		}
	}
	if f.edges != nil && f.edges.on && f.edges.fill[i].skip {
		return
	}
	s := Span{Name: st.Node.Name, Op: st.Node.Op.String(), Backend: st.Node.Backend, Nodes: st.Node.Provenance(),
		Start: start.Sub(p.zero), Time: time.Since(start)}
	switch st.Kind {
	case StepHost:
		s.Backend = hostName
	case StepConvert:
		s.Op, s.Backend = "Convert", "convert"
	case StepGroup:
	}
	p.add(f, i, s)
	p.last = time.Now()
}

// add notes a span of step i, and on which queue it was.
func (p *profiler) add(f *frame, i int, s Span) {
	s.Group = f.s.block.Steps[i].ID
	if l := f.s.block.lanes[f.s.lane(i)]; !l.device.IsHost() {
		s.Device, s.Stream = l.device.String(), l.stream
	}
	p.spans = append(p.spans, s)
}
