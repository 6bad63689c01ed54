// Ceiling is a server that takes what producers send, answers, and stores nothing.
//
// A client that shares the machine takes most of it: what it reaches against this server is the
// most that it can reach against any. Record bytes are not even copied out of the kernel. It knows
// only what a producer asks for, and gives each topic as many partitions as it was created with.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxVersions are the newest versions served, all before the flexible ones of Produce.
var maxVersions = map[int16]int16{0: 8, 3: 9, 18: 2, 19: 4, 20: 3, 22: 1}

const (
	produceKey     = 0
	apiVersionsKey = 18
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ceiling:", err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	s := &server{topics: make(map[string]int32)}
	host, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	s.host, s.port = host, int32(n)
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "ceiling:", err)
			os.Exit(1)
		}
		go s.serve(c.(*net.TCPConn))
	}
}

type server struct {
	host string
	port int32
	mu   sync.Mutex
	// topics has the number of partitions.
	topics map[string]int32
}

// serve answers one connection, in order.
func (s *server) serve(c *net.TCPConn) {
	defer c.Close()
	in := &input{conn: c, Reader: bufio.NewReaderSize(c, 4<<10)}
	for {
		if err := s.serveOne(in, c); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				fmt.Fprintln(os.Stderr, "ceiling:", err)
			}
			return
		}
	}
}

func (s *server) serveOne(in *input, c net.Conn) error {
	size, err := in.int32()
	if err != nil {
		return err
	}
	key, version := in.int16(), in.int16()
	correlation, err := in.int32()
	id := in.string()
	if err = errors.Join(err, in.err); err != nil {
		return err
	}
	answer := binary.BigEndian.AppendUint32(make([]byte, 4, 256), uint32(correlation))
	if key == produceKey {
		answer, err = in.produce(answer, version)
	} else {
		body := make([]byte, int(size)-10-len(id))
		if _, err = io.ReadFull(in, body); err == nil {
			answer, err = s.control(answer, key, version, body)
		}
	}
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	_, err = c.Write(answer)
	return err
}

// control answers anything but Produce.
func (s *server) control(answer []byte, key, version int16, body []byte) ([]byte, error) {
	req := kmsg.RequestForKey(key)
	most, known := maxVersions[key]
	switch {
	case known && version <= most:
		req.SetVersion(version)
		if req.IsFlexible() {
			body = body[1:] // no tags in the header
			answer = append(answer, 0)
		}
		if err := req.ReadFrom(body); err != nil {
			return nil, fmt.Errorf("read request %d: %w", key, err)
		}
	case key != apiVersionsKey:
		return nil, fmt.Errorf("request %d version %d: %w", key, version, errors.ErrUnsupported)
	default:
		version = 0
	}
	resp := req.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		for key, most := range maxVersions {
			r.ApiKeys = append(r.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: most})
		}
		if version == 0 { // so that the client asks again
			r.ErrorCode = kerr.UnsupportedVersion.Code
		}
	case *kmsg.MetadataResponse:
		s.metadata(req.(*kmsg.MetadataRequest), r)
	case *kmsg.CreateTopicsResponse:
		s.create(req.(*kmsg.CreateTopicsRequest), r)
	case *kmsg.DeleteTopicsResponse:
		for _, name := range req.(*kmsg.DeleteTopicsRequest).TopicNames {
			r.Topics = append(r.Topics, kmsg.DeleteTopicsResponseTopic{Topic: &name})
		}
	case *kmsg.InitProducerIDResponse:
		r.ProducerID = 1
	}
	resp.SetVersion(version)
	return resp.AppendTo(answer), nil
}

func (s *server) create(req *kmsg.CreateTopicsRequest, r *kmsg.CreateTopicsResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range req.Topics {
		s.topics[t.Topic] = t.NumPartitions
		r.Topics = append(r.Topics, kmsg.CreateTopicsResponseTopic{Topic: t.Topic})
	}
}

func (s *server) metadata(req *kmsg.MetadataRequest, r *kmsg.MetadataResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: s.host, Port: s.port}}
	r.ControllerID = 1
	for _, t := range req.Topics {
		out := kmsg.MetadataResponseTopic{Topic: t.Topic}
		for i := range s.topics[*t.Topic] {
			out.Partitions = append(out.Partitions, kmsg.MetadataResponseTopicPartition{
				Partition: i, Leader: 1, Replicas: []int32{1}, ISR: []int32{1},
			})
		}
		if len(out.Partitions) == 0 {
			out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		}
		r.Topics = append(r.Topics, out)
	}
}

// input reads one connection. The first error stays.
type input struct {
	*bufio.Reader
	conn *net.TCPConn
	err  error
}

func (in *input) bytes(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(in, b); err != nil && in.err == nil {
		in.err = err
	}
	return b
}

func (in *input) int16() int16 { return int16(binary.BigEndian.Uint16(in.bytes(2))) }

func (in *input) int32() (int32, error) {
	return int32(binary.BigEndian.Uint32(in.bytes(4))), in.err
}

// string reads a string that may be null.
func (in *input) string() []byte { return in.bytes(max(0, int(in.int16()))) }

// produce reads a Produce request, versions 3 to 8, and appends the answer.
func (in *input) produce(answer []byte, version int16) ([]byte, error) {
	in.string() // transactional id
	in.int16()  // acks
	_, _ = in.int32()
	topics, err := in.int32()
	answer = binary.BigEndian.AppendUint32(answer, uint32(topics))
	for range topics {
		name := in.string()
		answer = binary.BigEndian.AppendUint16(answer, uint16(len(name)))
		answer = append(answer, name...)
		partitions, _ := in.int32()
		answer = binary.BigEndian.AppendUint32(answer, uint32(partitions))
		for range partitions {
			index, _ := in.int32()
			n, readErr := in.int32()
			if err = errors.Join(readErr, in.discard(int(n))); err != nil {
				return nil, fmt.Errorf("read a batch: %w", err)
			}
			answer = binary.BigEndian.AppendUint32(answer, uint32(index))
			answer = append(answer, make([]byte, 2+8)...) // no error, offset 0
			answer = binary.BigEndian.AppendUint64(answer, ^uint64(0))
			answer = append(answer, make([]byte, 8)...) // the log's start
			if version >= 8 {
				answer = append(answer, 0, 0, 0, 0, 0xff, 0xff) // no record errors, no message
			}
		}
	}
	return append(answer, 0, 0, 0, 0), err // not throttled
}

// discard drops n bytes without copying them.
func (in *input) discard(n int) error {
	buffered := min(n, in.Buffered())
	if _, err := in.Discard(buffered); err != nil {
		return err
	}
	n -= buffered
	raw, err := in.conn.SyscallConn()
	if err != nil {
		return err
	}
	var trash [1]byte
	for n > 0 && err == nil {
		readErr := raw.Read(func(fd uintptr) bool {
			var m int
			m, err = truncate(int(fd), trash[:], n)
			n -= m
			if m == 0 && err == nil {
				err = io.ErrUnexpectedEOF
			}
			if errors.Is(err, syscall.EAGAIN) {
				err = nil
				return false
			}
			return true
		})
		err = errors.Join(err, readErr)
	}
	return err
}
