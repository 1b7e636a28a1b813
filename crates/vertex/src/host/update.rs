//! How a step changes the parameters by the gradient of its loss.

use super::real::Real;
use super::{Element, Refused};

/// The rule of an optimizer that keeps moments: numbers beside each parameter p. They are zeros before the first step. The
/// rate r and the decay d are the step's, and g is the gradient plus d p.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// One moment v, which becomes momentum · v + g; p becomes p - r v. By Nesterov it becomes p - r (g + momentum · v),
    /// with the new v.
    Momentum {
        /// The part of v that a step keeps.
        momentum: f64,
        /// Whether it is Nesterov's.
        is_nesterov: bool,
    },
    /// Kingma and Ba, "Adam" (ICLR 2015), algorithm 1. Two moments: m becomes beta1 m + (1 - beta1) g, and v becomes
    /// beta2 v + (1 - beta2) g²; p becomes p - r m' / (sqrt(v') + epsilon), where m' = m / (1 - beta1^t) and
    /// v' = v / (1 - beta2^t) at step t, from 1 on.
    Adam {
        /// Beta1 and beta2.
        betas: [f64; 2],
        /// Epsilon.
        epsilon: f64,
        /// AdamW (Loshchilov and Hutter, ICLR 2019, algorithm 2): g is the gradient alone, and r d p is taken from p first.
        is_decoupled: bool,
    },
}

impl Rule {
    /// The moments of a parameter.
    pub fn moments(&self) -> usize {
        match self {
            Self::Momentum { .. } => 1,
            Self::Adam { .. } => 2,
        }
    }

    /// Refuses numbers with which no step makes sense.
    pub fn check(&self) -> Result<(), Refused> {
        let below_one = |what: &str, number: f64| match (0.0..1.0).contains(&number) {
            true => Ok(()),
            false => Err(Refused(format!("{what} is {number}; 0 and more, below 1, is accepted"))),
        };
        match *self {
            Self::Momentum { momentum, .. } => below_one("the momentum", momentum),
            Self::Adam { betas, epsilon, .. } => {
                below_one("beta1", betas[0])?;
                below_one("beta2", betas[1])?;
                match epsilon.is_finite() && epsilon >= 0.0 {
                    true => Ok(()),
                    false => Err(Refused(format!("epsilon is {epsilon}; a finite number from 0 on is accepted"))),
                }
            }
        }
    }
}

/// A rule, and the moments of all parameters.
#[derive(Debug)]
pub struct Moments<'a, C> {
    /// The rule.
    pub rule: Rule,
    /// The first moment of each parameter.
    pub first: &'a mut [&'a mut [C]],
    /// Adam's second moments; else nothing.
    pub second: &'a mut [&'a mut [C]],
    /// Adam's betas to the power of the steps so far: 1 and 1 before the first one. A step multiplies them.
    pub powers: &'a mut [f64; 2],
}

/// Changes parameters by their gradients, with a rate and a decay: by gradient descent if there are no moments.
pub(super) fn update<E: Element>(
    parameters: &mut [&mut [E]],
    gradients: &[Option<&mut [E::Real]>],
    [rate, decay]: [f64; 2],
    moments: Option<Moments<E::Real>>,
) {
    let of = E::Real::of;
    let [rate, decay] = [rate, decay].map(of);
    let all = parameters.iter_mut().zip(gradients);
    let all = all.map(|(parameter, gradient)| parameter.iter_mut().zip(gradient.as_deref().unwrap_or_default()));
    let Some(Moments { rule, first, second, powers }) = moments else {
        for (number, gradient) in all.flatten() {
            let before = number.widen();
            *number = E::narrow(before - rate * (*gradient + decay * before));
        }
        return;
    };
    match rule {
        Rule::Momentum { momentum, is_nesterov } => {
            let left = of(momentum);
            for ((number, gradient), moment) in all.flatten().zip(first.iter_mut().flat_map(|its| its.iter_mut())) {
                let before = number.widen();
                let gradient = *gradient + decay * before;
                *moment = left * *moment + gradient;
                let along = if is_nesterov { gradient + left * *moment } else { *moment };
                *number = E::narrow(before - rate * along);
            }
        }
        Rule::Adam { betas, epsilon, is_decoupled } => {
            powers.iter_mut().zip(betas).for_each(|(power, beta)| *power *= beta);
            let ([first_left, second_left], [first_added, second_added]) =
                (betas.map(of), betas.map(|beta| of(1.0 - beta)));
            let (of_first, of_second) = (of(1.0 / (1.0 - powers[0])), of((1.0 - powers[1]).sqrt()));
            let [firsts, seconds] = [first, second].map(|all| all.iter_mut().flat_map(|its| its.iter_mut()));
            for (((number, gradient), first), second) in all.flatten().zip(firsts).zip(seconds) {
                let mut before = number.widen();
                let mut gradient = *gradient;
                if is_decoupled {
                    before = before - rate * decay * before;
                } else {
                    gradient += decay * before;
                }
                *first = first_left * *first + first_added * gradient;
                *second = second_left * *second + second_added * gradient * gradient;
                let along = of_first * *first / (second.sqrt() / of_second + of(epsilon));
                *number = E::narrow(before - rate * along);
            }
        }
    }
}
