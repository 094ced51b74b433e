package oip

import (
	"math"
	"strings"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
)

// Request asks for a model's outputs.
type Request struct {
	Model, Version string // Version is "" for the newest
	ID             string // echoed
	Inputs         []Named
	Outputs        []Output // none means all
	Parameters
}

// Bounds of what a request lists. A few bytes of a message would have a hundred kept of them otherwise.
const (
	MaxTensors = 1 << 12 // inputs, and outputs that it names
	MaxDims    = 64      // of a tensor
)

// TooMany is the error of a request that lists more than MaxTensors of something.
func TooMany(what string) error {
	return Errorf(InvalidArgument, "the request has more than %d %s", MaxTensors, what)
}

// Named is a tensor with its name.
type Named struct {
	Name   string
	Tensor *tensor.Tensor
}

// Output is one output that is asked for.
type Output struct {
	Name    string
	Classes int // the largest so many elements of a row, as "value:index:label"; 0 for the tensor itself
}

// Parameters are what a request asks for beside tensors.
type Parameters struct {
	Priority uint64        // 1 is the highest, 0 the model's default
	Timeout  time.Duration // that the request may wait; 0 for the model's
	Sequence SequenceID
	Start    bool // the sequence begins with this request
	End      bool // it ends with it
	Final    bool // an answer in a stream says that it is the request's last
}

// SequenceID is a number or a string; the zero value means none.
type SequenceID struct {
	Number uint64
	Text   string
}

// Set takes over one parameter of a request. Values are bool, int64, uint64, float64 or string. Names that the protocol does not
// know are left to the caller; the error, InvalidArgument, is for reserved ones of another type or range.
func (p *Parameters) Set(name string, value any) error {
	switch name {
	case "sequence_id":
		if s, ok := value.(string); ok {
			if len(s) > 128 {
				return Errorf(InvalidArgument, "parameter sequence_id has %d bytes, at most 128 are taken", len(s))
			}
			p.Sequence = SequenceID{Text: s}
			return nil
		}
		n, err := whole(name, value)
		p.Sequence = SequenceID{Number: n}
		return err
	case "sequence_start":
		return flag(name, value, &p.Start)
	case "sequence_end":
		return flag(name, value, &p.End)
	case "triton_enable_empty_final_response": // models have one answer a request, so that no empty one follows
		return flag(name, value, &p.Final)
	case "priority":
		n, err := whole(name, value)
		p.Priority = n
		return err
	case "timeout":
		n, err := whole(name, value)
		p.Timeout = time.Duration(min(n, uint64(24*time.Hour/time.Microsecond))) * time.Microsecond
		return err
	}
	if strings.HasPrefix(name, "triton_") {
		return Errorf(Unsupported, "parameter %q is reserved", name)
	}
	return nil
}

func flag(name string, value any, to *bool) error {
	b, ok := value.(bool)
	if !ok {
		return Errorf(InvalidArgument, "parameter %q has to be true or false", name)
	}
	*to = b
	return nil
}

// whole returns a number that is not negative.
func whole(name string, value any) (uint64, error) {
	switch v := value.(type) {
	case uint64:
		return v, nil
	case int64:
		if v >= 0 {
			return uint64(v), nil
		}
	case float64:
		if v >= 0 && v < math.MaxUint64 && v == math.Trunc(v) {
			return uint64(v), nil
		}
	}
	return 0, Errorf(InvalidArgument, "parameter %q has to be a whole number from 0 on", name)
}

// Response is the answer to a Request.
type Response struct {
	Model, Version string
	ID             string
	Outputs        []Named // in the order of the request, or the model's
}
