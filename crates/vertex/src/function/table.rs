//! The operations, a row each.

/// Calls a macro with all operations, in the order of their numbers. Those from `Take` on are in derivatives alone.
///
/// A row is the name, the name in texts, the operands in the texts' order, and the sort. P, Q: the parameters; x, y:
/// earlier values; dx, dy: gradients of the loss by them. Behind the sort:
///
/// - `one`: what the host computes of each element of x, as `C`, which is a `Real`;
/// - `dx`: the operation that makes dx of the result and dy;
/// - `two`: what it computes of an element of each input.
macro_rules! operations {
    ($with:ident) => {
        $with! {
            /// The vertex's row of input k; zeros where it has none.
            Pull "pull" [Input] Load;
            /// The vertex's number in input k, whose numbers are indices.
            PullIndex "pullIndex" [Input] Load;
            /// The row of P with this index.
            Lookup "lookup" [Parameter, INDEX] Load;
            /// State s of the child in this slot; zeros where there is none.
            Gather "gather" [Number("slot"), State] Load;
            /// State s of each child.
            Children "children" [State] Load;
            /// P x.
            Matmul "matmul" [Parameter, X] Product;
            /// x + P.
            Bias "bias" [Parameter, X] Element;
            /// x + y.
            Add "add" [X, Y] Element, two: |x, y| x + y;
            /// x - y.
            Sub "sub" [X, Y] Element, two: |x, y| x - y;
            /// x y, element by element.
            Mul "mul" [X, Y] Element, two: |x, y| x * y;
            /// x times a constant.
            Scale "scale" [X, Constant] Element;
            /// x plus a constant.
            Shift "shift" [X, Constant] Element;
            /// 1 / (1 + exp(-x)).
            Sigmoid "sigmoid" [X] Element, one: |x| x.sigmoid(), dx: SigmoidGradient;
            /// tanh(x).
            Tanh "tanh" [X] Element, one: |x| x.tanh(), dx: TanhGradient;
            /// max(x, 0).
            Relu "relu" [X] Element, one: |x| x.greater(C::ZERO), dx: ReluGradient;
            /// exp(x).
            Exp "exp" [X] Element, one: |x| x.exp(), dx: Mul;
            /// The sum over the children; zeros without children.
            SumChildren "sumChildren" [X] OverChildren;
            /// The mean over the children; zeros without children.
            MeanChildren "meanChildren" [X] OverChildren;
            /// The greatest over the children, element by element; zeros without children.
            MaxChildren "maxChildren" [X] OverChildren;
            /// exp(x) over its sum over the children, element by element.
            SoftmaxChildren "softmaxChildren" [X] OverChildren;
            /// exp(x) over its sum over the width.
            Softmax "softmax" [X] OverWidth;
            /// The sum over the width: a value of width 1.
            Sum "sum" [X] OverWidth;
            /// x, then y.
            Concat "concat" [X, Y] Part;
            /// So many elements of x from the first on.
            Slice "slice" [X, Number("first"), Number("width")] Part;
            /// Hands x on to the parents, as state s.
            Scatter "scatter" [State, X] HandOn;
            /// The vertex's row of output k is x.
            Push "push" [Output, X] HandOn;
            /// x P, element by element.
            Gain "gain" [Parameter, X] Element;
            /// x / y.
            Div "div" [X, Y] Element, two: |x, y| x / y;
            /// The greater of x and y, element by element. Where they are equal, each gets half of the gradient.
            Maximum "maximum" [X, Y] Element, two: |x, y| x.greater(y);
            /// The lesser of x and y likewise.
            Minimum "minimum" [X, Y] Element, two: |x, y| x.lesser(y);
            /// ln(x).
            Log "log" [X] Element, one: |x| x.ln();
            /// sqrt(x).
            Sqrt "sqrt" [X] Element, one: |x| x.sqrt(), dx: SqrtGradient;
            /// x to the power of a constant.
            Power "power" [X, Constant] Element;

            /// The gradient of state s: the sum of what the parents give.
            Take "take" [State] Load;
            /// State s as the vertex handed it on.
            Own "own" [State] Load;
            /// So many numbers of what the vertex kept when it ran forward, from the first on.
            Kept "kept" [Number("first"), Number("width")] Load;
            /// Numbers that it kept for each child, from the first on.
            KeptOfChildren "keptOfChildren" [Number("first"), Number("width")] Load;
            /// The vertex's row of the gradient of output k.
            PushGradient "pushGradient" [Output] Load;
            /// The transpose of P times x.
            MatmulTransposed "matmulTransposed" [Parameter, X] Product;
            /// dx of y = sigmoid(x), from y and dy.
            SigmoidGradient "sigmoidGradient" [Y, DY] Element, two: |y, dy| dy * y * (C::ONE - y);
            /// dx of y = tanh(x), from y and dy.
            TanhGradient "tanhGradient" [Y, DY] Element, two: |y, dy| dy * (C::ONE - y * y);
            /// dx of y = relu(x), from y and dy.
            ReluGradient "reluGradient" [Y, DY] Element, two: |y, dy| if y > C::ZERO { dy } else { C::ZERO };
            /// dx of the mean of x over the children, from dy: dy over their number, for each child.
            MeanGradient "meanGradient" [DY] Element;
            /// dx of the greatest of x over the children, from x and dy: dy for the first child that has the greatest.
            MaxGradient "maxGradient" [X, DY] OverChildren;
            /// x for each child.
            Spread "spread" [X] Element;
            /// x, of width 1, repeated to a width.
            Widen "widen" [X, Number("width")] Element;
            /// So many zeros.
            Zeros "zeros" [Number("width")] Load;
            /// Adds x to the gradient of state s of the child in this slot.
            Give "give" [Number("slot"), State, X] HandOn;
            /// Adds x to the gradient of state s of each child.
            GiveChildren "giveChildren" [State, X] HandOn;
            /// Adds x to the vertex's row of the gradient of input k.
            PullGradient "pullGradient" [Input, X] HandOn;
            /// Adds the product of the column dy and the row x to the gradient of P.
            Accumulate "accumulate" [Parameter, DY, X] Accumulate;
            /// Adds dy to the gradient of P, a vector.
            AccumulateBias "accumulateBias" [Parameter, DY] Accumulate;
            /// Adds dy to the row with this index of the gradient of P.
            AccumulateRow "accumulateRow" [Parameter, INDEX, DY] Accumulate;
            /// Keeps x, from this place on, for the run backward.
            Keep "keep" [Number("first"), X] HandOn;
            /// dx of y = sqrt(x), from y and dy.
            SqrtGradient "sqrtGradient" [Y, DY] Element, two: |y, dy| dy / (y + y);
            /// What x gets of the gradient of the greater of x and y: all of it, half where they are equal, or nothing.
            MaximumShare "maximumShare" [X, Y] Element,
                two: |x, y| C::of(if x > y { 1.0 } else if x == y { 0.5 } else { 0.0 });
        }
    };
}

pub(crate) use operations;
