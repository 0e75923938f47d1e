package a2astore

import (
	"encoding"
	"encoding/json"
	"reflect"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
)

// maxDepth is how deep messages may nest in a payload, the payload itself being level 1: the service refuses deeper ones. It
// also ends cycles.
const maxDepth = 90

// How many levels of messages a JSON object or list adds: Value, Struct, its map entry; Value, ListValue.
const (
	structLevels = 2
	listLevels   = 1
)

// encodeStruct converts metadata; nil stays nil. depth is the level of the Struct.
func encodeStruct(m map[string]any, depth int) (*structpb.Struct, *fieldError) {
	if m == nil {
		return nil, nil
	}
	if depth > maxDepth {
		return nil, tooDeep()
	}
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(m))}
	for k, v := range m {
		if err := encodeField(s, k, v, depth); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func encodeField(s *structpb.Struct, k string, v any, depth int) *fieldError {
	if !utf8.ValidString(k) {
		return notUTF8().key(k)
	}
	value, err := encodeValue(v, depth+structLevels)
	if err != nil {
		return err.key(k)
	}
	s.Fields[k] = value
	return nil
}

// encodeValue converts a JSON-like value. depth is the level of the Value.
func encodeValue(v any, depth int) (*structpb.Value, *fieldError) {
	if depth > maxDepth {
		return nil, tooDeep()
	}
	switch v := v.(type) {
	case nil:
		return structpb.NewNullValue(), nil
	case bool:
		return structpb.NewBoolValue(v), nil
	case float64:
		return structpb.NewNumberValue(v), nil
	case string:
		return encodeText(v)
	case json.Number:
		f, err := exactNumber(string(v))
		if err != nil {
			return nil, err
		}
		return structpb.NewNumberValue(f), nil
	case map[string]any:
		if v == nil {
			v = map[string]any{}
		}
		s, err := encodeStruct(v, depth+1)
		if err != nil {
			return nil, err
		}
		return structpb.NewStructValue(s), nil
	case []any:
		if depth+1 > maxDepth {
			return nil, tooDeep()
		}
		list := &structpb.ListValue{Values: make([]*structpb.Value, len(v))}
		for i, e := range v {
			value, err := encodeValue(e, depth+1+listLevels)
			if err != nil {
				return nil, err.at(i)
			}
			list.Values[i] = value
		}
		return structpb.NewListValue(list), nil
	}
	return encodeReflected(reflect.ValueOf(v), depth)
}

// encodeReflected converts the values that have one obvious meaning in JSON although their type is not one of JSON's.
func encodeReflected(v reflect.Value, depth int) (*structpb.Value, *fieldError) {
	if v.Kind() == reflect.Pointer {
		return encodePointer(v, depth)
	}
	if marshalsItself(v.Type()) {
		return nil, refuse("%v has a JSON form of its own: convert it first", v.Type())
	}
	switch v.Kind() {
	case reflect.Bool:
		return structpb.NewBoolValue(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f, err := exactInt(v.Int())
		if err != nil {
			return nil, err
		}
		return structpb.NewNumberValue(f), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f, err := exactUint(v.Uint())
		if err != nil {
			return nil, err
		}
		return structpb.NewNumberValue(f), nil
	case reflect.Float32, reflect.Float64:
		return structpb.NewNumberValue(v.Float()), nil
	case reflect.String:
		return encodeText(v.String())
	case reflect.Slice, reflect.Array:
		return encodeList(v, depth)
	case reflect.Map:
		return encodeMap(v, depth)
	default:
		return nil, refuse("%v cannot be stored: JSON has no such value", v.Type())
	}
}

// encodePointer follows pointers, also those to interfaces. One that points to itself is cut off like any cycle.
func encodePointer(v reflect.Value, depth int) (*structpb.Value, *fieldError) {
	for range maxDepth {
		switch {
		case v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface:
			return encodeValue(v.Interface(), depth)
		case v.IsNil():
			return structpb.NewNullValue(), nil
		}
		v = v.Elem()
	}
	return nil, tooDeep()
}

func encodeList(v reflect.Value, depth int) (*structpb.Value, *fieldError) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return nil, refuse("%v cannot be stored: JSON has no bytes; use text, or a raw part", v.Type())
	}
	if depth+1 > maxDepth {
		return nil, tooDeep()
	}
	list := &structpb.ListValue{Values: make([]*structpb.Value, v.Len())}
	for i := range v.Len() {
		value, err := encodeValue(v.Index(i).Interface(), depth+1+listLevels)
		if err != nil {
			return nil, err.at(i)
		}
		list.Values[i] = value
	}
	return structpb.NewListValue(list), nil
}

func encodeMap(v reflect.Value, depth int) (*structpb.Value, *fieldError) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, refuse("%v cannot be stored: JSON has no keys but strings", v.Type())
	}
	if depth+1 > maxDepth {
		return nil, tooDeep()
	}
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value, v.Len())}
	for it := v.MapRange(); it.Next(); {
		if err := encodeField(s, it.Key().String(), it.Value().Interface(), depth+1); err != nil {
			return nil, err
		}
	}
	return structpb.NewStructValue(s), nil
}

func encodeText(s string) (*structpb.Value, *fieldError) {
	if !utf8.ValidString(s) {
		return nil, notUTF8()
	}
	return structpb.NewStringValue(s), nil
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// marshalsItself reports whether a value of the type, or a pointer to one, has a JSON form that differs from that of its
// kind.
func marshalsItself(t reflect.Type) bool {
	if t.PkgPath() == "" { // neither a defined type nor one with methods
		return false
	}
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
}

func tooDeep() *fieldError { return refuse("nested deeper than %d levels, or a cycle", maxDepth) }

func notUTF8() *fieldError { return refuse("not valid UTF-8") }

// decodeStruct converts metadata; nil stays nil.
func decodeStruct(s *structpb.Struct) map[string]any {
	if s == nil {
		return nil
	}
	m := make(map[string]any, len(s.GetFields()))
	for k, v := range s.GetFields() {
		m[k] = decodeValue(v)
	}
	return m
}

// decodeValue returns only types that gob knows once a2a-go's task store is linked in. A Value without a kind, which no
// JSON parser makes, is read as nil.
func decodeValue(v *structpb.Value) any {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return kind.BoolValue
	case *structpb.Value_NumberValue:
		return kind.NumberValue
	case *structpb.Value_StringValue:
		return kind.StringValue
	case *structpb.Value_StructValue:
		if kind.StructValue == nil {
			return map[string]any{}
		}
		return decodeStruct(kind.StructValue)
	case *structpb.Value_ListValue:
		list := make([]any, len(kind.ListValue.GetValues()))
		for i, e := range kind.ListValue.GetValues() {
			list[i] = decodeValue(e)
		}
		return list
	default:
		return nil
	}
}
