package rest

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestHeadings asks again and again by few heads, many callers at a time, each for other numbers: the answer has what the request's own
// head and numbers say.
func TestHeadings(t *testing.T) {
	s, err := echoes()
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(s, Options{})
	ask := func(head, data string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "/v2/models/echo_fp32/infer", strings.NewReader(head+data))
		r.Header.Set(lengthHeader, strconv.Itoa(len(head)))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	head := func(id, outputs string) string {
		return `{` + id + `"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"parameters":{"binary_data_size":12}}],"outputs":[{"name":"y"` + outputs + `}]}`
	}
	const none = "\x00\x00\x00\x00\x00\x00\x00\x00"
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 50 {
				ones, twos := "\x00\x00\x80\x3f"+none, "\x00\x00\x00\x40"+none
				for _, row := range []struct{ head, data, want string }{
					{head("", ""), ones, `"data":[1,0,0]`}, {head("", ""), twos, `"data":[2,0,0]`},
					{head("", `,"parameters":{"binary_data":true}`), twos, `"binary_data_size":12}}]}` + twos},
					{head(`"id":"`+strconv.Itoa(i)+`",`, ""), ones, `"id":"` + strconv.Itoa(i) + `",`},
				} {
					if code, body := ask(row.head, row.data); code != 200 || !strings.Contains(body, row.want) {
						t.Errorf("%d: %q, want %q", code, body, row.want)
					}
				}
				if code, body := ask(strings.Replace(head("", ""), "1,3", "1,4", 1), ones); code != 400 {
					t.Errorf("12 bytes for 4 numbers: %d: %s", code, body)
				}
				text := `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"data":[1,2,` + strconv.Itoa(i) + `]}]}`
				if code, body := ask(text, ""); code != 200 || !strings.Contains(body, `[1,2,`+strconv.Itoa(i)+`]`) {
					t.Errorf("%d: %q for %q", code, body, text)
				}
			}
		})
	}
	group.Wait()
}
