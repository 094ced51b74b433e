package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/graph/tensor"
)

// Fields of the protocol's messages that have tensors' bytes.
const (
	rawInputs  = 7
	rawOutputs = 6
)

// errPlain is what a message is that plainly does not take.
var errPlain = errors.New("the message is none of the bench's")

// plainly returns what runs a model for a request in its wire form and answers with the results' bytes, and does nothing else: no checks, no
// queue, no statistics. Behind grpc-go it is the least that a server of a model can be. like is an answer to q, whose head the answers have.
func plainly(ctx context.Context, v *repository.Version, q *oip.Request, like []byte) (func(question []byte) ([]byte, error), error) {
	rest, err := tail(like, rawOutputs)
	if err != nil {
		return nil, err
	}
	head := like[:len(like)-len(rest)]
	return func(question []byte) ([]byte, error) {
		inputs := make(map[string]tensor.Value, len(q.Inputs))
		rest, err := tail(question, rawInputs)
		if err != nil {
			return nil, err
		}
		for _, in := range q.Inputs {
			_, _, n := protowire.ConsumeTag(rest)
			raw, m := protowire.ConsumeBytes(rest[max(n, 0):])
			if n < 0 || m < 0 || len(raw) != in.Tensor.NumBytes() {
				return nil, errPlain
			}
			inputs[in.Name], rest = &tensor.Tensor{DType: in.Tensor.DType, Shape: in.Tensor.Shape, Data: raw}, rest[n+m:]
		}
		results, err := v.Program().Run(ctx, inputs)
		if err != nil {
			return nil, err
		}
		answer := append(make([]byte, 0, len(like)), head...)
		for _, o := range v.Outputs {
			t, ok := results[o.Name].(*tensor.Tensor)
			if !ok {
				return nil, fmt.Errorf("output %s: %w", o.Name, carve.ErrInput)
			}
			answer = protowire.AppendBytes(protowire.AppendTag(answer, rawOutputs, protowire.BytesType), t.Data)
		}
		return answer, nil
	}, nil
}

// tail returns what a message has from its first field of a number on.
func tail(message []byte, number protowire.Number) ([]byte, error) {
	for rest := message; len(rest) > 0; {
		at, _, n := protowire.ConsumeField(rest)
		switch {
		case n < 0:
			return nil, protowire.ParseError(n)
		case at == number:
			return rest, nil
		}
		rest = rest[n:]
	}
	return nil, errPlain
}
