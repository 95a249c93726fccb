// Command apistub is an API server for the bench that costs next to nothing: what a scheduler can do where the API
// server is not the limit.
//
// It keeps objects as JSON in memory, serves lists and watches of them over HTTPS, takes bindings, which appear as watch
// events, and counts Scheduled events. Every collection that it has no objects of is served as an empty one. It ends by
// itself after -seconds.
//
// Its own pages, under /bench/, steer a run: POST release lets the measured pods appear, GET first answers at the first
// binding, GET end when each measured pod has its binding and its event, GET totals at once.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

const eventLimit = 5 * time.Second // an event counts when it arrives within it, counted from the last binding

func main() {
	objects := flag.String("objects", "", "file of objects, one JSON document a line")
	kubeconfig := flag.String("kubeconfig", "", "file to write the kubeconfig to, once the server listens")
	held := flag.Bool("held", false, "measured pods do not exist until they are released")
	rate := flag.Float64("rate", 0, "measured pods released a second; 0: all at once")
	seconds := flag.Int("seconds", 120, "seconds after which the server ends by itself")
	flag.Parse()
	time.AfterFunc(time.Duration(*seconds)*time.Second, func() { log.Fatalf("ended after %d s", *seconds) })

	store := newStore()
	run := newRun(store, *rate)
	if err := load(*objects, store, run, *held); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	certificate, authority, err := selfSigned()
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{
		Handler:           &handler{store: store, run: run},
		TLSConfig:         serverTLS(certificate),
		ReadHeaderTimeout: 10 * time.Second,
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				run.connections.Add(1)
			}
		},
		ErrorLog: log.New(os.Stderr, "", log.LstdFlags),
	}
	if err := writeKubeconfig(*kubeconfig, listener.Addr().String(), authority); err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.ServeTLS(listener, "", ""))
}

// load reads the objects. A line is {"path": collection, "measured": bool, "object": {...}}.
func load(name string, store *store, run *run, held bool) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			Path     string
			Measured bool
			Object   json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		item, err := newItem(line.Object)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if line.Measured {
			run.expect(item.key)
		}
		if line.Measured && held {
			run.held = append(run.held, item)
		} else {
			store.collection(line.Path).create(item)
		}
	}
	return lines.Err()
}

// run is the progress of the measured pods.
type run struct {
	store       *store
	rate        float64
	held        []*item
	connections atomic.Int64
	requests    atomic.Int64

	progress     chan func() // the fields below are changed through it only
	expected     map[string]bool
	bound        map[string]time.Time
	reported     map[string]time.Time
	conflict     int
	first        chan struct{}
	ended        chan struct{}
	began        time.Time
	last         time.Time
	lastReported time.Time
}

func newRun(store *store, rate float64) *run {
	made := &run{
		store: store, rate: rate,
		progress: make(chan func(), 1024),
		expected: map[string]bool{}, bound: map[string]time.Time{}, reported: map[string]time.Time{},
		first: make(chan struct{}), ended: make(chan struct{}),
	}
	go func() {
		for change := range made.progress {
			change()
		}
	}()
	return made
}

func (r *run) expect(key string) { r.expected[key] = true }

// release lets the held pods appear, at the rate.
func (r *run) release() {
	pods := r.store.collection("/api/v1/pods")
	began := time.Now()
	held := r.held
	r.held = nil
	go func() {
		for index, item := range held {
			if r.rate > 0 {
				time.Sleep(time.Until(began.Add(time.Duration(float64(index) / r.rate * float64(time.Second)))))
			}
			pods.create(item)
		}
	}()
}

func (r *run) sawBinding(key string) {
	now := time.Now()
	r.progress <- func() {
		if !r.expected[key] {
			return
		}
		if len(r.bound) == 0 {
			r.began = now
			close(r.first)
		}
		r.bound[key], r.last = now, now
		if len(r.bound) == len(r.expected) {
			time.AfterFunc(eventLimit, func() { r.progress <- r.end })
		}
		r.endIfWhole()
	}
}

func (r *run) sawConflict() { r.progress <- func() { r.conflict++ } }

func (r *run) sawScheduled(key string) {
	now := time.Now()
	r.progress <- func() {
		if _, known := r.reported[key]; r.expected[key] && !known {
			r.reported[key], r.lastReported = now, now
			r.endIfWhole()
		}
	}
}

func (r *run) endIfWhole() {
	if len(r.bound) == len(r.expected) && len(r.reported) == len(r.expected) {
		r.end()
	}
}

func (r *run) end() {
	select {
	case <-r.ended:
	default:
		close(r.ended)
	}
}

// totals is the run's result so far: seconds count from the first binding.
func (r *run) totals() map[string]any {
	answer := make(chan map[string]any)
	r.progress <- func() {
		var used syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
		answer <- map[string]any{
			"bound": len(r.bound), "reported": len(r.reported), "conflicts": r.conflict,
			"bound_seconds":    since(r.began, r.last),
			"reported_seconds": since(r.began, r.lastReported),
			"connections":      r.connections.Load(), "requests": r.requests.Load(),
			"cpu_seconds": time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds(),
		}
	}
	return <-answer
}

func since(began, ended time.Time) float64 {
	if began.IsZero() || ended.IsZero() {
		return 0
	}
	return ended.Sub(began).Seconds()
}
