package query

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client asks workers over HTTP, each for the tasks that run there.
type Client struct {
	// Address of the worker to ask first, host:port.
	Address string
	// HTTP makes the requests; nil is a client that waits 30 s for an answer to begin.
	HTTP *http.Client
}

// ErrCut reports an export that ended before its end.
var ErrCut = errors.New("the export was cut off before its end")

// headerTimeout is how long an answer may take to begin.
const headerTimeout = 30 * time.Second

func (c *Client) http() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	return &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: headerTimeout}}
}

// get asks one worker; the caller closes the body.
func (c *Client) get(
	ctx context.Context, address, path string, q url.Values,
) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: address, Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", address, err)
	}
	resp, err := c.http().Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", address, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var body struct {
		Error *Error `json:"error"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && json.Unmarshal(data, &body) == nil && body.Error != nil {
		body.Error.status = resp.StatusCode
		return nil, body.Error
	}
	return nil, fmt.Errorf("ask %s: it answers %s: %s", address, resp.Status,
		strings.TrimSpace(string(data[:min(len(data), 200)])))
}

func getJSON[T any](
	ctx context.Context, c *Client, address, path string, q url.Values,
) (*T, error) {
	resp, err := c.get(ctx, address, path, q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := new(T)
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", address, err)
	}
	return out, nil
}

func pathOf(pipeline, node string) string {
	path := Root + pipeline + "/state"
	if node != "" {
		path += "/" + node
	}
	return path
}

// values are the parameters of a request.
func (r *Request) values(partitions []int32) url.Values {
	q := url.Values{}
	if r.Key != nil {
		q.Set("key", *r.Key)
	}
	number := func(name string, n, none int64) {
		if n != none {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
	number("from", r.From, -1<<63)
	number("to", r.To, 1<<63-1)
	number("limit", int64(r.Limit), 0)
	number("max_lag", r.MaxLag, -1)
	if r.Stale {
		q.Set("stale", "true")
	}
	if r.Fresh {
		q.Set("fresh", "true")
	}
	for _, p := range partitions {
		q.Add("partition", strconv.Itoa(int(p)))
	}
	return q
}

// List tells what there is, of all workers.
func (c *Client) List(ctx context.Context, pipeline string) (*Listing, error) {
	first, err := getJSON[Listing](ctx, c, c.Address, pathOf(pipeline, ""), nil)
	if err != nil {
		return nil, err
	}
	for _, x := range byAddress(first.Elsewhere) {
		other, err := getJSON[Listing](ctx, c, x.address, pathOf(pipeline, ""), nil)
		if err != nil {
			return nil, err
		}
		for i := range first.Stores {
			for _, s := range other.Stores {
				if s.Store == first.Stores[i].Store && s.Sub == first.Stores[i].Sub {
					replace(first.Stores[i].Partitions, s.Partitions, x.partitions)
				}
			}
		}
	}
	return first, nil
}

// replace puts what the worker of some partitions says in the place of what another one said.
func replace(have, said []Partition, partitions []int32) {
	for i := range have {
		for _, p := range said {
			if p.Task == have[i].Task && slices.Contains(partitions, p.Partition) {
				have[i] = p
			}
		}
	}
}

// asked is a worker and what to ask it for.
type asked struct {
	address    string
	partitions []int32
}

// byAddress groups places, in the order of the addresses.
func byAddress(places []Place) []asked {
	var out []asked
	for _, p := range places {
		i := slices.IndexFunc(out, func(a asked) bool { return a.address == p.Address })
		if i < 0 {
			i = len(out)
			out = append(out, asked{address: p.Address})
		}
		if !slices.Contains(out[i].partitions, p.Partition) {
			out[i].partitions = append(out[i].partitions, p.Partition)
		}
	}
	slices.SortFunc(out, func(a, b asked) int { return strings.Compare(a.address, b.address) })
	return out
}

// Ask asks for rows, of all workers that have some.
func (c *Client) Ask(ctx context.Context, r Request) (*Answer, error) {
	path := pathOf(r.Pipeline, r.Node)
	out, err := getJSON[Answer](ctx, c, c.Address, path, r.values(r.Partitions))
	var places []Place
	switch known, ok := errors.AsType[*Error](err); {
	case ok && known.Code == CodeElsewhere:
		out, places = &Answer{Pipeline: r.Pipeline, Node: r.Node, Rows: []Row{}}, known.Elsewhere
	case err != nil:
		return nil, err
	default:
		places, out.Elsewhere = out.Elsewhere, nil
	}
	for _, x := range byAddress(places) {
		more, err := getJSON[Answer](ctx, c, x.address, path, r.values(x.partitions))
		if err != nil {
			return nil, err
		}
		out.Rows = append(out.Rows, more.Rows...)
		out.Partitions = append(out.Partitions, more.Partitions...)
		for _, p := range more.Elsewhere {
			if !slices.Contains(places, p) { // it has just moved
				out.Elsewhere = append(out.Elsewhere, p)
			}
		}
		out.Missing = append(out.Missing, more.Missing...)
		out.More = out.More || more.More
	}
	return out, nil
}

// Export writes all rows to w as lines of JSON, and returns how many there are.
func (c *Client) Export(ctx context.Context, r Request, w io.Writer) (rows int64, err error) {
	path := pathOf(r.Pipeline, r.Node) + "/export"
	places := []asked{{c.Address, r.Partitions}}
	resp, err := c.get(ctx, c.Address, path, r.values(r.Partitions))
	if known, ok := errors.AsType[*Error](err); ok && known.Code == CodeElsewhere {
		listing, listErr := c.List(ctx, r.Pipeline)
		if listErr != nil {
			return 0, listErr
		}
		places = spread(c.Address, r, listing, known.Elsewhere)
	} else if err != nil {
		return 0, err
	}
	for i, x := range places {
		if resp == nil || i > 0 {
			if resp, err = c.get(ctx, x.address, path, r.values(x.partitions)); err != nil {
				return rows, err
			}
		}
		n, err := copyLines(w, resp.Body, x.address)
		_ = resp.Body.Close() // it was read to its end
		rows += n
		if err != nil {
			return rows, err
		}
	}
	end, err := json.Marshal(Line{Type: "end", Rows: &rows})
	if err == nil {
		_, err = w.Write(append(end, '\n'))
	}
	return rows, err
}

// spread says which worker has to be asked for which partitions of a node.
func spread(first string, r Request, all *Listing, elsewhere []Place) []asked {
	places := elsewhere
	for _, s := range all.Stores {
		for _, p := range s.Partitions {
			other := slices.ContainsFunc(elsewhere, func(x Place) bool { return x.Partition == p.Partition })
			wanted := r.Partitions == nil || slices.Contains(r.Partitions, p.Partition)
			if s.Node == r.Node && !other && wanted {
				places = append(places, Place{p.Partition, first})
			}
		}
	}
	return byAddress(places)
}

// copyLines copies the lines of one worker's export but the last one, which tells that it is whole.
func copyLines(w io.Writer, from io.Reader, address string) (rows int64, err error) {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return rows, fmt.Errorf("export from %s: %w after %d rows: %w", address, ErrCut, rows, err)
		}
		var head struct {
			Type  string `json:"type"`
			Rows  int64  `json:"rows"`
			Error *Error `json:"error"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			return rows, fmt.Errorf("export from %s: %w", address, err)
		}
		switch {
		case head.Type == "error" && head.Error != nil:
			return rows, head.Error
		case head.Type == "end" && head.Rows != rows:
			return rows, fmt.Errorf("export from %s: %w: %d of %d rows came", address, ErrCut, rows,
				head.Rows)
		case head.Type == "end":
			return rows, nil
		case head.Type == "row":
			rows++
		}
		if _, err := w.Write(line); err != nil {
			return rows, err
		}
	}
}
