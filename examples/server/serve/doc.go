// Package serve answers requests of the Open Inference Protocol with the models of a repository, whichever form they came in: it
// admits and checks them, runs them, keeps sequences' states, classifies, counts, and drains.
//
// New makes a Server; package rest makes an http.Handler of it, package oipgrpc a service of grpc-go. Whoever has other
// transports calls Server.Infer.
package serve
