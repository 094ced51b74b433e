package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/examples/server/serve"
)

// echoes is a server of the models echo_fp32 and echo_bytes.
var echoes = sync.OnceValues(func() (*serve.Server, error) {
	root := fstest.MapFS{}
	for name, dtype := range map[string]string{"echo_fp32": "f32", "echo_bytes": "str"} {
		b, err := modeltest.Encode(modeltest.Echo(dtype))
		if err != nil {
			return nil, err
		}
		root[name+".onnx"] = &fstest.MapFile{Data: b, ModTime: time.Now()}
	}
	models, err := repository.Open(context.Background(), root, repository.Options{})
	if err != nil {
		return nil, err
	}
	return serve.New(models, serve.Options{MaxRequestBytes: 1 << 20}), nil
})

// FuzzInfer asks by any body, twice: the answers are the same, outputs or an error in JSON, never a panic, and as many bytes as are
// reserved are given back.
func FuzzInfer(f *testing.F) {
	f.Add("echo_fp32", "", []byte(`{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[[1,2,3]]}]}`))
	f.Add("echo_bytes", "", []byte(`{"inputs":[{"name":"x","shape":[1,3],"datatype":"BYTES","data":["a","\u00fc",""]}]}`))
	f.Add("echo_fp32", "91", []byte(`{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","parameters":{"binary_data_size":12}}]}123456789012`))
	f.Add("echo_fp32", "0", []byte("123456789012"))
	f.Fuzz(func(t *testing.T, model, head string, body []byte) {
		s, err := echoes()
		if err != nil {
			t.Fatal(err)
		}
		if model != "echo_bytes" {
			model = "echo_fp32"
		}
		h := Handler(s, Options{})
		ask := func() *httptest.ResponseRecorder {
			r := httptest.NewRequest("POST", "/v2/models/"+model+"/infer", bytes.NewReader(body))
			if head != "" {
				r.Header.Set(lengthHeader, head)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		w := ask()
		if again := ask(); again.Code != w.Code || !bytes.Equal(again.Body.Bytes(), w.Body.Bytes()) { // whose JSON may have been kept
			t.Errorf("%d: %s; again %d: %s", w.Code, w.Body, again.Code, again.Body)
		}
		if w.Code != 200 {
			var e struct {
				Error string `json:"error"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" || w.Code == 500 {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		}
		if n := s.Bytes(); n != 0 {
			t.Errorf("%d bytes stay reserved", n)
		}
	})
}
