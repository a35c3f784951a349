// The proxy that Go's standard library makes, with the least a gateway for models has to do: read `model` from the body.
//
//	go_proxy PORT ENGINE_URL
//
// It is what the gateway's cost is measured against, since most such gateways are written this way.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

type envelope struct {
	Model string `json:"model"`
}

// Connections kept to the engine: more than are ever asked for at once. Go's default of two would have it connect anew.
const idleConnections = 256

func main() {
	engine, err := url.Parse(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DisableCompression = true
	transport.MaxIdleConns = idleConnections
	transport.MaxIdleConnsPerHost = idleConnections
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(request *httputil.ProxyRequest) { request.SetURL(engine) },
		Transport:     transport,
		FlushInterval: -1,
	}
	http.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("POST /", func(response http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		var peek envelope
		if err != nil || json.Unmarshal(body, &peek) != nil || peek.Model == "" {
			http.Error(response, "no model", http.StatusBadRequest)
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(response, request)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
