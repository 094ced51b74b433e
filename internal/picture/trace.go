package picture

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/carve-dev/carve/internal/exec"
)

// Span is one sub-step of a measured run.
type Span = exec.Span

// Host is the name of the device that spans and formats leave unnamed.
const Host = "host"

// Track is a row of a timeline: a device's stream, or what the host does by itself.
type Track struct {
	Device string `json:"device"`
	Name   string `json:"name"`
	stream int
}

// tracksOf returns those that spans are on, the host's first, the others in the order in which they first appear, and the track
// of each span.
func tracksOf(spans []Span) (tracks []Track, of []int) {
	tracks = []Track{{Device: Host, Name: Host}}
	of = make([]int, len(spans))
	for i := range spans {
		s := &spans[i]
		if s.Device == "" {
			continue
		}
		at := slices.IndexFunc(tracks, func(t Track) bool { return t.Device == s.Device && t.stream == s.Stream })
		if at < 0 {
			at = len(tracks)
			tracks = append(tracks, Track{s.Device, fmt.Sprintf("%s stream %d", s.Device, s.Stream), s.Stream})
		}
		of[i] = at
	}
	return tracks, of
}

// event is one of the trace event format: "X" for a span, "M" for the name of a process or thread. Times are microseconds.
type event struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"`
	Ph   string         `json:"ph"`
	TS   float64        `json:"ts"`
	Dur  float64        `json:"dur"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	Args map[string]any `json:"args"`
}

// WriteTrace writes spans in the trace event format, a process for each device and a thread for each of its streams.
func WriteTrace(w io.Writer, spans []Span) error {
	tracks, of := tracksOf(spans)
	var devices []string
	pid := make([]int, len(tracks))
	events := make([]event, 0, len(spans)+2*len(tracks))
	name := func(what string, pid, tid int, name string) {
		events = append(events, event{Name: what, Ph: "M", PID: pid, TID: tid, Args: map[string]any{"name": name}})
	}
	for i, t := range tracks {
		if pid[i] = slices.Index(devices, t.Device) + 1; pid[i] == 0 {
			devices = append(devices, t.Device)
			pid[i] = len(devices)
			name("process_name", pid[i], i+1, t.Device)
		}
		name("thread_name", pid[i], i+1, t.Name)
	}
	for i := range spans {
		s, at := &spans[i], of[i]
		e := event{Name: s.Name, Cat: s.Backend, Ph: "X", TS: float64(s.Start.Nanoseconds()) / 1e3,
			Dur: float64(s.Time.Nanoseconds()) / 1e3, PID: pid[at], TID: at + 1, Args: map[string]any{"op": s.Op, "nodes": s.Nodes}}
		if s.Group >= 0 {
			e.Args["group"] = s.Group
		}
		if s.FLOPs > 0 && s.Time > 0 {
			e.Args["gflops"] = s.FLOPs / float64(s.Time.Nanoseconds())
		}
		events = append(events, e)
	}
	enc := json.NewEncoder(w)
	if err := enc.Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ms"}); err != nil {
		return fmt.Errorf("chrome trace: %w", err)
	}
	return nil
}
