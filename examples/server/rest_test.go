package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/listen"
)

// ask makes a request, and returns status and body.
func ask(l *listen.Listeners, method, path, body string) (int, string) {
	GinkgoHelper()
	r, err := http.NewRequest(method, "http://"+l.Addr("http").String()+path, bytes.NewBufferString(body))
	Expect(err).NotTo(HaveOccurred())
	a, err := http.DefaultClient.Do(r)
	Expect(err).NotTo(HaveOccurred())
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	Expect(err).NotTo(HaveOccurred())
	return a.StatusCode, string(b)
}

// load loads a model.
func load(l *listen.Listeners, model string) {
	GinkgoHelper()
	status, body := ask(l, http.MethodPost, "/v2/repository/models/"+model+"/load", "")
	Expect(status).To(Equal(http.StatusOK), body)
}

// decoded returns a body's JSON.
func decoded(body string) (out map[string]any) {
	GinkgoHelper()
	Expect(json.Unmarshal([]byte(body), &out)).To(Succeed(), body)
	return out
}
