package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/listen"
	"github.com/carve-dev/carve/examples/server/rest"
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

// failing is a transport that has begun with a further attempt when it gives up, and does not close what that would have sent.
type failing struct{ sent io.ReadCloser }

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.Body.Close()
	f.sent, _ = r.GetBody()
	return nil, net.ErrClosed
}

var _ = It("rest.Client returns with a transport that leaves a body open, which it cannot read any more", func(ctx SpecContext) {
	var t failing
	c := &rest.Client{Base: "http://nowhere", HTTP: &http.Client{Transport: &t}}
	over := make(chan error, 1)
	go func() { over <- echoes(ctx, c, "echo_fp32", 1, 2, 3) }()
	Eventually(over).WithTimeout(5 * time.Second).Should(Receive(MatchError(net.ErrClosed)))
	n, err := t.sent.Read(make([]byte, 8))
	Expect(n).To(BeZero())
	Expect(err).To(MatchError(ContainSubstring("over")))
})
