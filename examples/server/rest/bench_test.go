package rest

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// nowhere is an http.ResponseWriter that keeps nothing.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(status int)      { n.status = status }

func (n *nowhere) SetReadDeadline(time.Time) error  { return nil }
func (n *nowhere) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkInfer answers a request of three numbers in binary, without a network: what the handler takes, and a run of a model that does
// nothing.
func BenchmarkInfer(b *testing.B) {
	s, err := echoes()
	if err != nil {
		b.Fatal(err)
	}
	h := Handler(s, Options{})
	head := `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"parameters":{"binary_data_size":12}}],"parameters":{"binary_data_output":true}}`
	body := []byte(head + "123456789012")
	from := bytes.NewReader(body)
	r, err := http.NewRequest(http.MethodPost, "/v2/models/echo_fp32/infer", from)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set(lengthHeader, strconv.Itoa(len(head)))
	w := &nowhere{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		from.Reset(body)
		r.Body = io.NopCloser(from)
		clear(w.header)
		h.ServeHTTP(w, r)
	}
	if w.status >= 400 {
		b.Fatal(w.status)
	}
}
