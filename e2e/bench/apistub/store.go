package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// item is one object as JSON. The resource version is the only part that every change replaces.
type item struct {
	key    string // namespace/name, or name
	uid    string
	node   string // of a pod
	number int    // its place in the list
	body   []byte
}

func newItem(body []byte) (*item, error) {
	var read struct {
		Metadata struct{ Name, Namespace, UID string }
		Spec     struct{ NodeName string }
	}
	if err := json.Unmarshal(body, &read); err != nil {
		return nil, err
	}
	if read.Metadata.Name == "" {
		return nil, fmt.Errorf("an object without a name")
	}
	key := read.Metadata.Name
	if read.Metadata.Namespace != "" {
		key = read.Metadata.Namespace + "/" + key
	}
	return &item{key: key, uid: read.Metadata.UID, node: read.Spec.NodeName, body: body}, nil
}

var (
	versionField = []byte(`"resourceVersion":"`)
	specField    = []byte(`"spec":{`)
	statusField  = []byte(`"status":{`)
)

// withVersion replaces the first resource version of the document, which is its own, or adds one.
func withVersion(body []byte, version int) []byte {
	if !bytes.Contains(body, versionField) {
		body = bytes.Replace(body, []byte(`"metadata":{`), []byte(`"metadata":{"resourceVersion":"",`), 1)
	}
	begin := bytes.Index(body, versionField) + len(versionField)
	end := begin + bytes.IndexByte(body[begin:], '"')
	made := make([]byte, 0, len(body)+8)
	made = strconv.AppendInt(append(made, body[:begin]...), int64(version), 10)
	return append(made, body[end:]...)
}

// withNode puts a pod on its node, as a binding does: the name, and the condition that says so.
func withNode(body []byte, node string) []byte {
	name, _ := json.Marshal(node)
	body = bytes.Replace(body, specField, append([]byte(`"spec":{"nodeName":`+string(name)), ','), 1)
	condition := `"status":{"conditions":[{"type":"PodScheduled","status":"True","lastProbeTime":null,` +
		`"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1}],`
	return bytes.Replace(body, statusField, []byte(condition), 1)
}

// store is all collections. One lock and one resource version for everything, as etcd has.
type store struct {
	mutex       sync.Mutex
	version     int
	collections map[string]*collection
}

func newStore() *store { return &store{version: 1000, collections: map[string]*collection{}} }

func (s *store) collection(path string) *collection {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	found := s.collections[path]
	if found == nil {
		found = &collection{store: s, byKey: map[string]*item{}, watchers: map[*watcher]bool{}}
		s.collections[path] = found
	}
	return found
}

// collection is the objects of one kind in the whole cluster.
type collection struct {
	store    *store
	items    []*item // nil where one was deleted
	byKey    map[string]*item
	watchers map[*watcher]bool
}

// selector is what is understood of a field selector: whether a pod has a node.
type selector int

const (
	all selector = iota
	pending
	assigned
)

func selectorOf(fields string) selector {
	for field := range strings.SplitSeq(fields, ",") {
		switch field {
		case "spec.nodeName=":
			return pending
		case "spec.nodeName!=":
			return assigned
		}
	}
	return all
}

func (s selector) matches(node string) bool {
	return s == all || (s == pending) == (node == "")
}

// watcher collects what its stream has not sent yet.
type watcher struct {
	selector selector
	lines    []byte
	news     chan struct{} // has one element where lines are there
}

func (w *watcher) add(kind string, body []byte) {
	w.lines = append(append(append(w.lines, `{"type":"`...), kind...), `","object":`...)
	w.lines = append(append(w.lines, body...), "}\n"...)
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (c *collection) watch(selector selector) *watcher {
	c.store.mutex.Lock()
	defer c.store.mutex.Unlock()
	made := &watcher{selector: selector, news: make(chan struct{}, 1)}
	c.watchers[made] = true
	return made
}

func (c *collection) unwatch(w *watcher) {
	c.store.mutex.Lock()
	defer c.store.mutex.Unlock()
	delete(c.watchers, w)
}

// take is what the stream sends next.
func (c *collection) take(w *watcher) []byte {
	c.store.mutex.Lock()
	defer c.store.mutex.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}

// list writes the page of at most limit items (0: all) from the token on. Returns the items, the next token, the version.
func (c *collection) list(selector selector, from, limit int) (page [][]byte, next, version int) {
	c.store.mutex.Lock()
	defer c.store.mutex.Unlock()
	for index := from; index < len(c.items); index++ {
		if limit > 0 && len(page) == limit {
			return page, index, c.store.version
		}
		if item := c.items[index]; item != nil && selector.matches(item.node) {
			page = append(page, item.body)
		}
	}
	return page, 0, c.store.version
}

func (c *collection) get(key string) (body []byte, found bool) {
	c.store.mutex.Lock()
	defer c.store.mutex.Unlock()
	if item := c.byKey[key]; item != nil {
		return item.body, true
	}
	return nil, false
}

// create stores a new item. Returns its body, or nil if there is one of its name.
func (c *collection) create(made *item) []byte {
	c.store.mutex.Lock()
	defer c.store.mutex.Unlock()
	if c.byKey[made.key] != nil {
		return nil
	}
	made.number = len(c.items)
	c.items = append(c.items, made)
	c.byKey[made.key] = made
	c.store.version++
	made.body = withVersion(made.body, c.store.version)
	c.tell("ADDED", made.node, made.node, made.body)
	return made.body
}

// change replaces an item's body by what edit makes of it. The outcome is edit's; 404 without such an item.
func (c *collection) change(key string, edit func(*item) ([]byte, int)) ([]byte, int) {
	c.store.mutex.Lock()
	defer c.store.mutex.Unlock()
	item := c.byKey[key]
	if item == nil {
		return nil, 404
	}
	before := item.node
	body, status := edit(item)
	if status >= 300 {
		return nil, status
	}
	c.store.version++
	item.body = withVersion(body, c.store.version)
	c.tell("MODIFIED", before, item.node, item.body)
	return item.body, status
}

func (c *collection) remove(key string) bool {
	c.store.mutex.Lock()
	defer c.store.mutex.Unlock()
	item := c.byKey[key]
	if item == nil {
		return false
	}
	delete(c.byKey, key)
	c.items[item.number] = nil
	c.store.version++
	c.tell("DELETED", item.node, item.node, withVersion(item.body, c.store.version))
	return true
}

func (c *collection) tell(kind, before, after string, body []byte) {
	for watcher := range c.watchers {
		was, is := watcher.selector.matches(before), watcher.selector.matches(after)
		switch {
		case was && is:
			watcher.add(kind, body)
		case was:
			watcher.add("DELETED", body)
		case is:
			watcher.add("ADDED", body)
		}
	}
}
