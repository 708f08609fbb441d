package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Data is a tensor to be written.
type Data struct {
	Name  string
	Type  Type
	Dims  []int // the first varies fastest
	Bytes []byte
}

// Write writes a version 3 file. Values of meta may be string, bool, uint8, int8, uint16, int16,
// uint32, int32, float32, uint64, int64, float64 and slices of these; each is stored in its own type.
func Write(w io.Writer, meta map[string]any, tensors []Data) error {
	head := []byte("GGUF")
	u32 := func(v uint32) { head = binary.LittleEndian.AppendUint32(head, v) }
	u64 := func(v int) { head = binary.LittleEndian.AppendUint64(head, uint64(v)) }
	str := func(s string) { u64(len(s)); head = append(head, s...) }
	u32(3)
	u64(len(tensors))
	u64(len(meta))
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		str(key)
		kind, value, err := encode(meta[key])
		if err != nil {
			return fmt.Errorf("gguf: key %q: %w", key, err)
		}
		u32(kind)
		head = append(head, value...)
	}
	align := defaultAlignment
	if a, ok := meta["general.alignment"].(uint32); ok && a > 0 {
		align = int(a)
	}
	pad := func(n int) int { return (align - n%align) % align }
	offset := 0
	for _, t := range tensors {
		str(t.Name)
		u32(uint32(len(t.Dims)))
		for _, d := range t.Dims {
			u64(d)
		}
		u32(uint32(t.Type))
		u64(offset)
		offset += len(t.Bytes) + pad(len(t.Bytes))
	}
	out := bufio.NewWriter(w) // keeps the first error until Flush
	out.Write(head)
	out.Write(make([]byte, pad(len(head))))
	for _, t := range tensors {
		out.Write(t.Bytes)
		out.Write(make([]byte, pad(len(t.Bytes))))
	}
	return out.Flush()
}

// encode is the type and the bytes of a value.
func encode(v any) (kind uint32, b []byte, err error) {
	le := binary.LittleEndian
	switch v := v.(type) {
	case string:
		return kindString, append(le.AppendUint64(nil, uint64(len(v))), v...), nil
	case []string:
		return encodeArray(kindString, v)
	case []bool:
		return encodeArray(kindBool, v)
	case []uint8:
		return encodeArray(kindU8, v)
	case []int8:
		return encodeArray(kindI8, v)
	case []uint16:
		return encodeArray(kindU16, v)
	case []int16:
		return encodeArray(kindI16, v)
	case []uint32:
		return encodeArray(kindU32, v)
	case []int32:
		return encodeArray(kindI32, v)
	case []float32:
		return encodeArray(kindF32, v)
	case []uint64:
		return encodeArray(kindU64, v)
	case []int64:
		return encodeArray(kindI64, v)
	case []float64:
		return encodeArray(kindF64, v)
	case bool:
		kind = kindBool
	case uint8:
		kind = kindU8
	case int8:
		kind = kindI8
	case uint16:
		kind = kindU16
	case int16:
		kind = kindI16
	case uint32:
		kind = kindU32
	case int32:
		kind = kindI32
	case float32:
		kind = kindF32
	case uint64:
		kind = kindU64
	case int64:
		kind = kindI64
	case float64:
		kind = kindF64
	default:
		return 0, nil, fmt.Errorf("a value of Go type %T can't be stored", v)
	}
	b, err = binary.Append(nil, le, v)
	return kind, b, err
}

func encodeArray[T any](kind uint32, values []T) (uint32, []byte, error) {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(values)))
	for _, v := range values {
		_, e, err := encode(v)
		if err != nil {
			return 0, nil, err
		}
		b = append(b, e...)
	}
	return kindArray, b, nil
}
