package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	bodyLimit       = 4 << 20
	bookmarkSeconds = 30
)

type handler struct {
	store *store
	run   *run
}

// target is what a path of the API names.
type target struct {
	collection string // for example /api/v1/pods
	key        string // "" for the collection
	sub        string
}

// targetOf reads /api/v1/… and /apis/GROUP/VERSION/…; false for discovery and everything else.
func targetOf(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	head := 2
	if parts[0] == "apis" {
		head = 3
	}
	if (parts[0] != "api" && parts[0] != "apis") || len(parts) <= head {
		return target{}, false
	}
	prefix, rest, namespace := "/"+strings.Join(parts[:head], "/")+"/", parts[head:], ""
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1]+"/", rest[2:]
	}
	found := target{collection: prefix + rest[0]}
	if len(rest) > 1 {
		found.key = namespace + rest[1]
	}
	if len(rest) > 2 {
		found.sub = rest[2]
	}
	return found, true
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.run.requests.Add(1)
	if page, isOurs := strings.CutPrefix(r.URL.Path, "/bench/"); isOurs {
		h.steer(w, r, page)
		return
	}
	target, isKnown := targetOf(r.URL.Path)
	if !isKnown {
		discover(w, r.URL.Path)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		refuse(w, 413, err.Error())
		return
	}
	switch {
	case target.sub == "binding":
		h.bind(w, target, body)
	case target.key == "" && strings.HasSuffix(target.collection, "/events") && r.Method == "POST":
		h.event(w, body)
	case strings.HasSuffix(target.collection, "accessreviews") && r.Method == "POST":
		answer(w, 201, []byte(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`))
	case target.key == "" && r.Method == "GET" && isTrue(r.URL.Query().Get("watch")):
		h.watch(w, r, target)
	case target.key == "" && r.Method == "GET":
		h.list(w, r, target)
	default:
		h.object(w, r, target, body)
	}
}

func (h *handler) steer(w http.ResponseWriter, r *http.Request, page string) {
	switch page {
	case "release":
		h.run.release()
	case "first":
		await(r, h.run.first)
	case "end":
		await(r, h.run.ended)
	}
	totals, _ := json.Marshal(h.run.totals())
	answer(w, 200, totals)
}

func await(r *http.Request, what <-chan struct{}) {
	select {
	case <-what:
	case <-r.Context().Done():
	}
}

func (h *handler) bind(w http.ResponseWriter, target target, body []byte) {
	var binding struct {
		Metadata struct{ UID string }
		Target   struct{ Name string }
	}
	if err := json.Unmarshal(body, &binding); err != nil || binding.Target.Name == "" {
		refuse(w, 400, "no Binding")
		return
	}
	_, status := h.store.collection(target.collection).change(target.key, func(pod *item) ([]byte, int) {
		if pod.node != "" || (binding.Metadata.UID != "" && binding.Metadata.UID != pod.uid) {
			return nil, 409
		}
		pod.node = binding.Target.Name
		return withNode(pod.body, pod.node), 201
	})
	if status != 201 {
		h.run.sawConflict()
		refuse(w, status, "the pod can't be bound")
		return
	}
	h.run.sawBinding(target.key)
	answer(w, 201, []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`))
}

func (h *handler) event(w http.ResponseWriter, body []byte) {
	var event struct {
		Reason    string
		Regarding struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(body, &event); err != nil {
		refuse(w, 400, "no Event")
		return
	}
	if event.Reason == "Scheduled" {
		h.run.sawScheduled(event.Regarding.Namespace + "/" + event.Regarding.Name)
	}
	// Events are not read here, so they are not stored; the answer is as long as the real one, which has defaults.
	made := bytes.Replace(body, []byte(`"metadata":{`), stamps, 1)
	answer(w, 201, made)
}

var stamps = []byte(`"metadata":{"uid":"5b6d9a1c-66f3-4a8e-8a51-0d4d5a3a0001","resourceVersion":"1","creationTimestamp":"2026-01-01T00:00:00Z",` +
	`"managedFields":[{"manager":"scheduler","operation":"Update","apiVersion":"events.k8s.io/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1",` +
	`"fieldsV1":{"f:action":{},"f:eventTime":{},"f:note":{},"f:reason":{},"f:regarding":{},"f:reportingController":{},"f:reportingInstance":{},"f:type":{}}}],`)

func (h *handler) list(w http.ResponseWriter, r *http.Request, target target) {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	from, _ := strconv.Atoi(query.Get("continue"))
	page, next, version := h.store.collection(target.collection).list(selectorOf(query.Get("fieldSelector")), from, limit)
	metadata := fmt.Sprintf(`"resourceVersion":"%d"`, version)
	if next > 0 {
		metadata += fmt.Sprintf(`,"continue":"%d"`, next)
	}
	kind, group := kindOf(target.collection)
	head := fmt.Sprintf(`{"kind":"%sList","apiVersion":%q,"metadata":{%s},"items":[`, kind, group, metadata)
	answer(w, 200, []byte(head), bytes.Join(page, []byte(",")), []byte("]}"))
}

func (h *handler) watch(w http.ResponseWriter, r *http.Request, target target) {
	query := r.URL.Query()
	if isTrue(query.Get("sendInitialEvents")) {
		refuse(w, 422, "sendInitialEvents is forbidden: streaming lists are not served") // clients then list
		return
	}
	collection := h.store.collection(target.collection)
	watcher := collection.watch(selectorOf(query.Get("fieldSelector")))
	defer collection.unwatch(watcher)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	bookmarks := time.NewTicker(bookmarkSeconds * time.Second)
	defer bookmarks.Stop()
	kind, group := kindOf(target.collection)
	for {
		var lines []byte
		select {
		case <-r.Context().Done():
			return
		case <-watcher.news:
			lines = collection.take(watcher)
		case <-bookmarks.C:
			_, _, version := collection.list(all, 1<<62, 0)
			lines = fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":%q,"metadata":{"resourceVersion":"%d"}}}`+"\n",
				kind, group, version)
		}
		if _, err := w.Write(lines); err != nil {
			return
		}
		if err := flusher.Flush(); err != nil {
			return
		}
	}
}

// object serves one object of any kind: reads, creations, replacements and merge patches.
func (h *handler) object(w http.ResponseWriter, r *http.Request, target target, body []byte) {
	collection := h.store.collection(target.collection)
	var made []byte
	status := 200
	switch r.Method {
	case "GET":
		found := false
		if made, found = collection.get(target.key); !found {
			status = 404
		}
	case "POST":
		created, err := newItem(body)
		if err != nil {
			refuse(w, 400, err.Error())
			return
		}
		if made, status = collection.create(created), 201; made == nil {
			status = 409
		}
	case "PUT":
		made, status = collection.change(target.key, func(*item) ([]byte, int) { return body, 200 })
	case "PATCH":
		made, status = collection.change(target.key, func(old *item) ([]byte, int) { return merged(old.body, body) })
	case "DELETE":
		if !collection.remove(target.key) {
			status = 404
		}
		made = []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`)
	default:
		status = 405
	}
	if status >= 300 {
		refuse(w, status, r.Method+" "+target.key)
		return
	}
	answer(w, status, made)
}

// merged applies a JSON merge patch. Lists are replaced: conditions of a pod have one writer here.
func merged(body, patch []byte) ([]byte, int) {
	var old, changes map[string]any
	if json.Unmarshal(body, &old) != nil || json.Unmarshal(patch, &changes) != nil {
		return nil, 400
	}
	merge(old, changes)
	made, err := json.Marshal(old)
	if err != nil {
		return nil, 500
	}
	return made, 200
}

func merge(old, changes map[string]any) {
	for name, value := range changes {
		inner, isMap := value.(map[string]any)
		before, wasMap := old[name].(map[string]any)
		switch {
		case value == nil:
			delete(old, name)
		case isMap && wasMap:
			merge(before, inner)
		default:
			old[name] = value
		}
	}
}

func discover(w http.ResponseWriter, path string) {
	switch {
	case path == "/version":
		answer(w, 200, []byte(`{"major":"1","minor":"36","gitVersion":"v1.36.3"}`))
	case path == "/api":
		answer(w, 200, []byte(`{"kind":"APIVersions","versions":["v1"]}`))
	case path == "/apis":
		answer(w, 200, []byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
	case strings.HasPrefix(path, "/api"):
		group := strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/")
		answer(w, 200, fmt.Appendf(nil, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[]}`, group))
	default:
		refuse(w, 404, path)
	}
}

// kinds names the kinds of collections: client-go decodes no list of a kind that it does not know.
var kinds = map[string]string{
	"configmaps": "ConfigMap", "csidrivers": "CSIDriver", "csinodes": "CSINode", "csistoragecapacities": "CSIStorageCapacity",
	"deviceclasses": "DeviceClass", "namespaces": "Namespace", "nodes": "Node", "persistentvolumeclaims": "PersistentVolumeClaim",
	"persistentvolumes": "PersistentVolume", "poddisruptionbudgets": "PodDisruptionBudget", "pods": "Pod",
	"replicasets": "ReplicaSet", "replicationcontrollers": "ReplicationController", "resourceclaims": "ResourceClaim",
	"resourceslices": "ResourceSlice", "services": "Service", "statefulsets": "StatefulSet", "storageclasses": "StorageClass",
	"volumeattachments": "VolumeAttachment",
}

// kindOf is the kind and the apiVersion of a collection; "" for kinds that the table does not have.
func kindOf(collection string) (kind, group string) {
	group = strings.TrimPrefix(strings.TrimPrefix(collection, "/apis/"), "/api/")
	slash := strings.LastIndexByte(group, '/')
	return kinds[group[slash+1:]], group[:slash]
}

func isTrue(value string) bool { return value == "1" || value == "true" }

func answer(w http.ResponseWriter, status int, parts ...[]byte) {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(length))
	// As a real one sends them.
	header.Set("Audit-Id", "d2f0b1f4-5c5a-4b0e-9d53-5f7f0a0c0001")
	header.Set("Cache-Control", "no-cache, private")
	header.Set("X-Kubernetes-Pf-Flowschema-Uid", "d2f0b1f4-5c5a-4b0e-9d53-5f7f0a0c0002")
	header.Set("X-Kubernetes-Pf-Prioritylevel-Uid", "d2f0b1f4-5c5a-4b0e-9d53-5f7f0a0c0003")
	w.WriteHeader(status)
	for _, part := range parts {
		_, _ = w.Write(part)
	}
}

func refuse(w http.ResponseWriter, status int, message string) {
	reason := map[int]string{404: "NotFound", 409: "Conflict", 422: "Invalid"}[status]
	body, _ := json.Marshal(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": message, "reason": reason, "code": status,
	})
	answer(w, status, body)
}
