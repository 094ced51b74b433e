package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/graph/tensor"
)

// Client asks a server over HTTP, with tensors in binary. It is safe for concurrent use.
type Client struct {
	Base string       // such as "http://localhost:8000"
	HTTP *http.Client // nil means http.DefaultClient
}

// StatusError is an answer of a server that is no success.
type StatusError struct {
	Status  int
	Message string
}

// Error names status and message.
func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Message) }

// Infer asks for a model's outputs. An answer other than 200 is a *StatusError.
func (c *Client) Infer(ctx context.Context, r *oip.Request) (*oip.Response, error) {
	head, raws, err := encodeRequest(r)
	if err != nil {
		return nil, err
	}
	at := c.Base + "/v2/models/" + url.PathEscape(r.Model)
	if r.Version != "" {
		at += "/versions/" + url.PathEscape(r.Version)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/infer", nil)
	if err != nil {
		return nil, err
	}
	var sent lent
	defer sent.end()
	q.GetBody = func() (io.ReadCloser, error) {
		parts := []io.Reader{bytes.NewReader(head)}
		for _, raw := range raws {
			parts = append(parts, bytes.NewReader(raw))
		}
		return &sending{io.MultiReader(parts...), &sent}, nil
	}
	q.Body, _ = q.GetBody() // does not fail
	q.ContentLength = int64(len(head))
	for _, raw := range raws {
		q.ContentLength += int64(len(raw))
	}
	q.Header.Set("Content-Type", "application/octet-stream")
	q.Header.Set("Accept-Encoding", "identity")
	q.Header.Set(lengthHeader, strconv.Itoa(len(head)))
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	a, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	var answer []byte
	if a.ContentLength >= 0 && a.ContentLength < 1<<31 {
		answer = make([]byte, a.ContentLength)
		_, err = io.ReadFull(a.Body, answer)
	} else {
		answer, err = io.ReadAll(a.Body)
	}
	if err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		var e struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(answer, &e) // the status alone says enough
		return nil, &StatusError{a.StatusCode, e.Error}
	}
	text, err := strconv.Atoi(a.Header.Get(lengthHeader))
	if err != nil {
		text = len(answer)
	}
	return decodeResponse(answer, text)
}

// lent is what a request's bodies read of the caller's until the request is over.
type lent struct {
	mu   sync.RWMutex // held while a body is read
	over bool
}

func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// sending is a body. Transports may read it after they have returned, and close none that a further attempt did not come to.
type sending struct {
	io.Reader
	of *lent
}

// Read implements io.Reader.
func (b *sending) Read(to []byte) (int, error) {
	b.of.mu.RLock()
	defer b.of.mu.RUnlock()
	if b.of.over {
		return 0, errOver
	}
	return b.Reader.Read(to)
}

// Close implements io.Closer.
func (b *sending) Close() error { return nil }

var errOver = errors.New("the request is over")

// encodeRequest returns a request's JSON, and the tensors that follow it, which are shared with the request's.
func encodeRequest(r *oip.Request) (head []byte, raws [][]byte, err error) {
	type input struct {
		Name       string         `json:"name"`
		Shape      []int          `json:"shape"`
		Datatype   string         `json:"datatype"`
		Parameters map[string]any `json:"parameters"`
	}
	type output struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
	}
	parameters := map[string]any{"binary_data_output": true}
	if r.Priority > 0 {
		parameters["priority"] = r.Priority
	}
	if r.Timeout > 0 {
		parameters["timeout"] = r.Timeout / time.Microsecond
	}
	if r.Sequence != (oip.SequenceID{}) {
		parameters["sequence_id"], parameters["sequence_start"], parameters["sequence_end"] = r.Sequence.Number, r.Start, r.End
		if r.Sequence.Text != "" {
			parameters["sequence_id"] = r.Sequence.Text
		}
	}
	raws = make([][]byte, len(r.Inputs))
	inputs, outputs := make([]input, len(r.Inputs)), make([]output, len(r.Outputs))
	for i, in := range r.Inputs {
		if raws[i], err = oip.Raw(in.Tensor); err != nil {
			return nil, nil, err
		}
		datatype, _ := oip.Datatype(in.Tensor.DType)
		inputs[i] = input{in.Name, append([]int{}, in.Tensor.Shape...), datatype, map[string]any{"binary_data_size": len(raws[i])}}
	}
	for i, o := range r.Outputs {
		outputs[i] = output{o.Name, map[string]any{"binary_data": true}}
		if o.Classes > 0 {
			outputs[i].Parameters["classification"] = o.Classes
		}
	}
	request := map[string]any{"id": r.ID, "parameters": parameters, "inputs": inputs}
	if len(outputs) > 0 {
		request["outputs"] = outputs
	}
	head, err = json.Marshal(request)
	return head, raws, err
}

// decodeResponse reads an answer whose outputs are in binary. Tensors refer to body.
func decodeResponse(body []byte, head int) (*oip.Response, error) {
	if head < 0 || head > len(body) {
		return nil, fmt.Errorf("%d bytes of JSON in an answer of %d", head, len(body))
	}
	r, raw := &oip.Response{}, body[head:]
	outputs, err := decodeHead(r, body[:head])
	if err != nil {
		return nil, err
	}
	for _, o := range outputs {
		dt, err := oip.DType(o.datatype)
		if err != nil {
			return nil, err
		}
		size, ok := o.size.(int64)
		if !ok || size < 0 || size > int64(len(raw)) {
			return nil, fmt.Errorf("output %q has no binary_data_size that fits the answer", o.name)
		}
		shape, n, err := oip.Shape(o.name, o.shape, size)
		if err != nil {
			return nil, err
		}
		t := &tensor.Tensor{DType: dt, Shape: shape, Data: raw[:size]}
		if dt == tensor.String {
			t.Data = nil
			if t.Strings, err = oip.ParseStrings(o.name, raw[:size], n); err != nil {
				return nil, err
			}
		}
		if err := t.Check(); err != nil {
			return nil, err
		}
		r.Outputs, raw = append(r.Outputs, oip.Named{Name: o.name, Tensor: t}), raw[size:]
	}
	return r, nil
}

// decodeHead reads the JSON of an answer.
func decodeHead(r *oip.Response, head []byte) (outputs []tensorJSON, err error) {
	answer, err := parse(head)
	if err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %w", err)
	}
	err = members(answer, "the answer", func(name string, v gjson.Result) (err error) {
		switch name {
		case "model_name":
			r.Model, err = str(v, name)
		case "model_version":
			r.Version, err = str(v, name)
		case "id":
			r.ID, err = str(v, name)
		case "outputs":
			err = elements(v, name, func(v gjson.Result) error {
				outputs = append(outputs, tensorJSON{})
				return outputs[len(outputs)-1].read(v)
			})
		}
		return err
	})
	return outputs, err
}
